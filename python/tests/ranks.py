"""Runs a function on ranks of torch.distributed, each a process, and collects what they return or raise."""

import os
import pickle
import socket
import sys
import time
import traceback
from pathlib import Path

import torch.distributed as dist
import torch.multiprocessing as mp


def _rank(rank, count, port, folder, function, arguments):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
    dist.init_process_group("gloo", rank=rank, world_size=count)
    try:
        found = function(rank, count, *arguments)
    except Exception as error:
        found = error
        traceback.print_exc(file=sys.stdout)
    Path(folder, f"{rank}.pickle").write_bytes(pickle.dumps(found))
    # Without waiting for a rank that was lost.
    os._exit(0)


def run(function, count, folder, *arguments):
    """What each rank returned or raised; ``None`` of one that ended by itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    ranks = [context.Process(target=_rank, args=(rank, count, port, folder, function, arguments)) for rank in range(count)]
    for rank in ranks:
        rank.start()
    until = time.monotonic() + 150
    for rank in ranks:
        rank.join(max(0, until - time.monotonic()))
        if rank.is_alive():
            rank.kill()
            raise AssertionError("a rank hangs")
    files = [Path(folder, f"{rank}.pickle") for rank in range(count)]
    return [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]
