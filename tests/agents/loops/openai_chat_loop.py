"""The openai SDK over chat completions."""

import json

import openai
from hands import SYSTEM, TOOLS, do, prompts

client = openai.OpenAI()
tools = [
    {
        "type": "function",
        "function": {"name": t["name"], "description": t["description"], "parameters": t["schema"]},
    }
    for t in TOOLS
]
messages = [{"role": "system", "content": SYSTEM}]
for prompt in prompts():
    messages.append({"role": "user", "content": prompt})
    while True:
        said = (
            client.chat.completions.create(model="gpt-4.1", tools=tools, messages=messages).choices[0].message
        )
        messages.append(said)
        for call in said.tool_calls or ():
            result = do(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if not said.tool_calls:
            break
    print(said.content)
