"""The anthropic SDK, as its users write their first loop: nothing is marked for the cache."""

import anthropic
from hands import SYSTEM, TOOLS, do, prompts

client = anthropic.Anthropic()
tools = [{"name": t["name"], "description": t["description"], "input_schema": t["schema"]} for t in TOOLS]
messages = []
for prompt in prompts():
    messages.append({"role": "user", "content": prompt})
    while True:
        answer = client.messages.create(
            model="claude-sonnet-4-5", max_tokens=2000, system=SYSTEM, tools=tools, messages=messages
        )
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": do(call.name, call.input)}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    print(answer.content[-1].text)
