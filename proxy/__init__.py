"""Stet: a transparent proxy between an unmodified coding agent and its LLM provider.

"Stet" is the proofreader's mark for *let it stand*. Providers cache prompts by prefix: one changed byte early on, and
all that stands behind it is paid again. So what was once sent stands, byte for byte, for as long as the
conversation lasts; what has to change is changed on arrival and then for ever, or in a batch that pays for itself.

The nouns
    part          a piece of a prompt: text, image, call, result, reminder, reasoning, tool     conversation.py
    prefix        all that stands before a point of the prompt; a *key* names one               identity.py
    spool         where huge outputs are kept, out of the prompt; a *handle* names one          spool.py
    edit          one difference between the client's body and ours, with its reason            edits.py
    promise       an edit recorded under the prefix it was made for, kept in every later turn   ledger.py
    frontier      how far a provider has seen a conversation, and when                          ledger.py
    stage         a rule that proposes edits                                                    stages/
    dialect       a wire format: bytes to parts and back                                        dialects/
    policy        which stages run, and how                                                     policy.py
    recording     what a session's clients sent, to be played again under other policies        recording.py, playback/
    turn          one request from arrival to end, as logged                                    turns.py

The flow of a request
    gateway -> dialect.read -> ledger.place -> replay -> stage ... stage -> exit check -> dialect.write -> upstream
                                                  answer, untouched, through a tap -> usage -> ledger, Turn record

Everything between `gateway` and `upstream` is `rewrite.rewrite`: pure and synchronous. It knows no clock, no IO, no
randomness and no environment; what it needs of the world comes in as `Facts`.

The laws (each is a property test in tests/laws)
     1 Deterministic   same bytes, policy, ledger and facts give the same bytes
     2 Identity        with nothing to do, the client's own bytes object goes out
     3 Verbatim        a part that no edit names leaves as the client's own bytes
     4 Prefix          what was sent is a prefix of what is sent next, unless a committed edit says what it breaks
     5 Causal          an edit depends on its target and what stands before, or is committed once, in a batch that pays
     6 Well-formed     what leaves is accepted by the provider, or is no worse than what came
     7 Lossless        what people and the model said is never shortened by `careful` and `default`
     8 Explained       every difference is an edit with stage, reason, target and token effect
     9 Fail open       no fault of ours keeps a request from being answered as without us
    10 Idempotent      our output asks for no further repair; a ledger from its store gives the same bytes

Decisions
    Promises live in a branch, not in one global table. Context: the same first words open many conversations, and a
    nightly job must not get yesterday's date back. Decision: a branch is one line of a conversation as sent, with its
    promises and frozen values; a fork starts with all of them, and those whose anchor is not in its history are never
    looked up. Consequence: choosing a branch is the one place where session ids matter, and only among equals.

    Promises are replayed in the order they were made. Context: two edits may name one target (a placeholder and an
    announcement before the same text), and anchors alone do not order them. Decision: each promise has a number.
    Consequence: replay composes exactly as the first time, whatever stages a policy has by then.

    The last request is remembered, not only what was decided. Context: 99 % of a turn is old, and reading it again
    costs more than everything else. Decision: messages whose bytes are the same are taken over as read and as sent.
    Consequence: a warm turn costs by what is new; without the memory the same bytes come out, later.

    What batches cost in advance is bounded. Context: nobody knows when a session ends, and one that ends behind a
    batch has paid for nothing. Decision: a promise of a batch says what it cost; the sum, less what the batches have
    saved since, never exceeds a share of what the session would have cost without any. Consequence: short sessions
    see few batches while their cache is warm, and every session stays within that share wherever it ends.

    A compaction asks nobody unless the policy says so. Context: a summary by a model is better than lists, but costs a
    call, can fail, and says something else each time. Decision: it is made from the history alone, by lists in people's,
    the model's and the tools' own words; in `mode: model` the rewrite asks for words instead, and gets them as `Facts`.
    Who put the question, once and for a bounded time, is the gateway's business, and what was heard stands in a promise.
    Consequence: the rewrite stays pure, a replay and a failed question have the lists, and the bytes stand either way.
"""
