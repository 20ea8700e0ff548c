"""aider with four files in the chat, each prompt asked eleven times in other words."""

import sys

from aider.coders import Coder
from aider.io import InputOutput
from aider.models import Model
from hands import prompts

model, files = sys.argv[2], sys.argv[3:]
coder = Coder.create(
    main_model=Model(model, weak_model=model),
    fnames=files,
    io=InputOutput(yes=True),
    auto_commits=False,
    stream=False,
)
for prompt in prompts():
    for nth in range(11):
        coder.run(f"{prompt}, for the {nth + 1}. time")
