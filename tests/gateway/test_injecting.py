"""A project file that changes while an agent works, over real sockets: told at the tail, and the prefix stands."""

import json
from pathlib import Path

from tests.gateway.rig import run
from tests.gateway.test_spooled import MAKE, bench


def test_what_stands_for_one_turn_costs_no_cache(tmp_path: Path) -> None:
    """Each turn reads from the cache all that the turn before wrote there: the last mark stands in front of it."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("extends: careful\ninject: {texts: {host: db1 is live}, persist: turn}\n")

    async def scene() -> None:
        async with bench(tmp_path, str(policy)) as work:
            await work.say("Mend the pump." * 500, then=MAKE)
            await work.give("built\n" * 400, then=MAKE)
            await work.give("built\n" * 400)
            sent = await work.say("Thank you.")
            told = [json.dumps(message).count("db1 is live") for message in sent["messages"]]
            assert told == [0] * 6 + [1]
            assert "db1 is live" in sent["messages"][-1]["content"][-1]["text"]
            usages = [exchange.usage for exchange in work.provider.log]
            held = [usage.cache_read_input_tokens + usage.written for usage in usages]
            assert [usage.cache_read_input_tokens for usage in usages[1:]] == held[:-1]
            assert all(usage.written > 0 for usage in usages)

    run(scene())


def test_each_conversation_is_told_of_its_own_project(tmp_path: Path) -> None:
    """One proxy, one folder of projects: where the agent says it works counts."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("extends: careful\ninject: {files: [AGENTS.md]}\n")
    for name in ("pump", "fan"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "AGENTS.md").write_text(f"This is the {name}.")

    async def scene() -> None:
        async with bench(tmp_path, str(policy)) as work:
            for name in ("pump", "fan"):
                work.messages = []
                work.system = f"<env>\nWorking directory: {tmp_path}/{name}\n</env>"
                sent = await work.say("Mend it.")
                told = sent["messages"][0]["content"][0]["text"]
                assert f"This is the {name}." in told

    run(scene())


def test_a_changed_file_of_conventions_is_told_once_and_costs_no_cache(tmp_path: Path) -> None:
    """Each turn reads from the cache all that the turn before had; the last one holds both tellings."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("extends: careful\ninject: {files: [AGENTS.md]}\n")
    conventions = tmp_path / "AGENTS.md"
    conventions.write_text("Use tabs.\n" * 400)

    async def scene() -> None:
        async with bench(tmp_path, str(policy)) as work:
            await work.say("Mend the pump.", then=MAKE)
            await work.give("built\n" * 400, then=MAKE)
            conventions.write_text("Use four spaces.\n")
            await work.give("built\n" * 400)
            sent = await work.say("Thank you.")
            told = [
                block["text"]
                for message in sent["messages"]
                for block in message["content"]
                if block["type"] == "text" and block["text"].startswith("<system-reminder source=")
            ]
            assert [text.count("Use tabs.") for text in told] == [400, 0]
            assert "AGENTS.md has changed. Its contents are now:\n\nUse four spaces." in told[1]
            usages = [exchange.usage for exchange in work.provider.log]
            held = [usage.cache_read_input_tokens + usage.written for usage in usages]
            assert [usage.cache_read_input_tokens for usage in usages[1:]] == held[:-1]

    run(scene())
