"""What a run of script/interop gpu executes if there is PyTorch: a small network, on the device alone."""
import torch

torch.manual_seed(7)
device = torch.device("cuda")
print("torch", torch.__version__, torch.cuda.get_device_name(0), "GPU-" + str(torch.cuda.get_device_properties(0).uuid))
inputs = torch.randn(16384, 512, device=device)
wanted = torch.sin(inputs @ torch.randn(512, 16, device=device) / 20)
network = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 16)).to(device)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
for step in range(600):
    loss = torch.nn.functional.mse_loss(network(inputs), wanted)
    if step == 0:
        print("loss", loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
torch.save(network.state_dict(), "/out/model.pt")
