"""The google-genai SDK, its automatic function calling off: the loop is written out."""

import os

from google import genai
from google.genai import types
from hands import SYSTEM, TOOLS, do, prompts

client = genai.Client(
    api_key=os.environ["GEMINI_API_KEY"],
    http_options=types.HttpOptions(base_url=os.environ["GOOGLE_GEMINI_BASE_URL"]),
)
declared = [
    types.FunctionDeclaration(
        name=t["name"], description=t["description"], parameters_json_schema=t["schema"]
    )
    for t in TOOLS
]
config = types.GenerateContentConfig(
    system_instruction=SYSTEM,
    tools=[types.Tool(function_declarations=declared)],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
contents = []
for prompt in prompts():
    contents.append(types.Content(role="user", parts=[types.Part(text=prompt)]))
    while True:
        answer = client.models.generate_content(model="gemini-3.8-flash", contents=contents, config=config)
        contents.append(answer.candidates[0].content)
        calls = answer.function_calls or []
        if not calls:
            break
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": do(call.name, call.args)}
                )
            )
            for call in calls
        ]
        contents.append(types.Content(role="user", parts=parts))
    print(answer.text)
