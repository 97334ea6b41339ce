"""torch.distributed: collectives whose names are also those of indexing operators."""

import os

import torch
import torch.distributed as dist
from torch.distributed import all_gather, broadcast


def setup():
    dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def exchange(tensor: torch.Tensor):
    world = dist.get_world_size()
    parts = [torch.zeros_like(tensor) for _ in range(world)]
    all_gather(parts, tensor)
    dist.gather(tensor, parts if dist.get_rank() == 0 else None, dst=0)
    dist.scatter(tensor, parts if dist.get_rank() == 0 else None, src=0)
    dist.all_reduce(tensor)
    dist.reduce_scatter(tensor, parts)
    broadcast(tensor, src=0)
    received = torch.empty_like(tensor)
    dist.recv(received, src=0)
    joined = torch.empty(world * len(tensor), device=tensor.device)
    dist.all_gather_into_tensor(joined, tensor)
    return torch.cat(parts), received + joined[: len(tensor)]


def barrier_and_close():
    dist.barrier()
    dist.destroy_process_group()
