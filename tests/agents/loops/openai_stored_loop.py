"""The openai SDK over responses, its history kept at the provider: only what is new is sent."""

import json

import openai
from hands import SYSTEM, TOOLS, do, prompts

client = openai.OpenAI()
tools = [
    {
        "type": "function",
        "name": t["name"],
        "description": t["description"],
        "parameters": t["schema"],
        "strict": False,
    }
    for t in TOOLS
]
before = openai.omit if hasattr(openai, "omit") else openai.NOT_GIVEN
for prompt in prompts():
    items = [{"role": "user", "content": prompt}]
    while True:
        answer = client.responses.create(
            model="gpt-5", instructions=SYSTEM, tools=tools, input=items, previous_response_id=before
        )
        before = answer.id
        calls = [item for item in answer.output if item.type == "function_call"]
        items = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": do(call.name, json.loads(call.arguments)),
            }
            for call in calls
        ]
        if not calls:
            break
    print(answer.output_text)
