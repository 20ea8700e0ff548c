"""The openai SDK over responses, its history kept here and sent whole."""

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
items = []
for prompt in prompts():
    items.append({"role": "user", "content": prompt})
    while True:
        answer = client.responses.create(
            model="gpt-5",
            instructions=SYSTEM,
            tools=tools,
            input=items,
            store=False,
            include=["reasoning.encrypted_content"],
        )
        items += answer.output
        calls = [item for item in answer.output if item.type == "function_call"]
        for call in calls:
            output = do(call.name, json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
        if not calls:
            break
    print(answer.output_text)
