"""`stet run` and `stet doctor`: an agent started so that it speaks to the proxy, and what is in the way of that.

recipe     how each agent is pointed, as data from `config/launch/*.yaml`
places     the user's own files and variables, read and never written
survey     where an agent's requests are to go on to: the vendor, or what the user had set
pointing   arguments, environment and temporary files for the child
child      the agent's process: its terminal, its signals, its exit code
own        the proxy of a run, in a thread; one that runs already
untouched  what the same requests would have cost directly, by estimate
tally      what the proxy logged, added up; summary: the words for it
session    `stet run` as a whole;   doctor, checks: `stet doctor`
"""
