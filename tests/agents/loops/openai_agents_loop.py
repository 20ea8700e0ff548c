"""The openai-agents SDK: its runner has the loop, over responses."""

from agents import Agent, Runner, function_tool
from hands import READ, RUN, SYSTEM, do, prompts


@function_tool(description_override=READ["description"])
def read_file(path: str) -> str:
    return do("read_file", {"path": path})


@function_tool(description_override=RUN["description"])
def run_commands(commands: list[str]) -> str:
    return do("run_commands", {"commands": commands})


agent = Agent(name="Programmer", instructions=SYSTEM, model="gpt-5", tools=[read_file, run_commands])
items = []
for prompt in prompts():
    result = Runner.run_sync(agent, [*items, {"role": "user", "content": prompt}], max_turns=50)
    items = result.to_input_list()
    print(result.final_output)
