"""What a run of several nodes executes in script/interop torch and gpu: PyTorch's DistributedDataParallel over Gloo, as torchrun would start it."""
import os

import torch
import torch.distributed as distributed

distributed.init_process_group("gloo")  # everything it needs stands in the environment
rank, size = distributed.get_rank(), distributed.get_world_size()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(7)
inputs = torch.randn(1024, 64)
wanted = torch.sin(inputs @ torch.randn(64, 4) / 8)
mine, mine_wanted = inputs[rank::size].to(device), wanted[rank::size].to(device)
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 4)).to(device)
network = torch.nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
for step in range(int(os.environ["STEPS"])):
    loss = torch.nn.functional.mse_loss(network(mine), mine_wanted)
    if step == 0:
        print(f"rank {rank} of {size} on {device.type}: begin {loss.item():.4f}", flush=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"rank {rank} of {size} on {device.type}: end {loss.item():.4f}", flush=True)
weights = torch.cat([part.detach().cpu().flatten() for part in network.parameters()])
everybody = [torch.empty_like(weights) for _ in range(size)]
distributed.all_gather(everybody, weights)
assert all(torch.equal(weights, others) for others in everybody), "the nodes have other weights than each other"
if device.type == "cuda":
    print("device GPU-" + str(getattr(torch.cuda.get_device_properties(0), "uuid", "")), flush=True)
if os.environ["LOCAL_RANK"] == "0":
    weights.numpy().tofile(os.environ["SIJIL_OUTPUTS"] + "/model")
distributed.destroy_process_group()
