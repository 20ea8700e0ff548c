"""llama.cpp's own HTTP server, out of the wheel `xllamacpp`, on a free port of 127.0.0.1.

    python serve.py MODEL.gguf THREADS

It says where it listens and ends with its standard input, so that it never outlives who started it.
"""

import sys

import xllamacpp


def parameters(model: str, threads: int) -> xllamacpp.CommonParams:
    """One slot, as people run it on their own machine, with the cache of its defaults."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 65536
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.use_jinja = True
    params.endpoint_metrics = True
    return params


def main() -> None:
    server = xllamacpp.Server(parameters(sys.argv[1], int(sys.argv[2])))
    # In one piece, for the engine writes its own lines there too; and on a line of its own, whatever it wrote last.
    sys.stdout.write(f"\nlistening on {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
