"""Conversations with reminders told apart, as the rewrite tells them."""

from msgspec import structs

from proxy.agents import Agent
from proxy.conversation import Conversation


def recognised(conversation: Conversation, agent: Agent) -> Conversation:
    """What the agent recognises in each message."""
    return structs.replace(conversation, messages=tuple(map(agent.recognise, conversation.messages)))
