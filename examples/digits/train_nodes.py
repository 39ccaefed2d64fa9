"""The training of train.py on several nodes at once: each rank has a part of the digits, and rank 0 adds up what all have found (data-parallel).

Plain sockets and numpy. The sum is in the order of the ranks, so the model is bit for bit the same each time. PyTorch's torch.distributed finds its way by the same
variables: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE."""
import json
import os
import socket
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import train  # noqa: E402  (its folder is not a package)

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MASTER = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
PATIENCE_S = 60


def meet():
    """Rank 0: a connection to each other rank, in their order. The others: one to rank 0."""
    if RANK == 0:
        with socket.create_server(MASTER) as server:
            server.settimeout(PATIENCE_S)
            links = {}
            while len(links) < SIZE - 1:
                link, _ = server.accept()
                links[int.from_bytes(receive(link, 4))] = link
        return [links[rank] for rank in sorted(links)]
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            link = socket.create_connection(MASTER, 5)
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
    link.sendall(RANK.to_bytes(4))
    return [link]


def receive(link, length):
    got = bytearray()
    while len(got) < length:
        piece = link.recv(length - len(got))
        if not piece:
            raise ConnectionError("another rank has gone")
        got += piece
    return bytes(got)


def sum_of_all(links, numbers):
    """The sum of the numbers of all ranks, at all ranks."""
    if RANK == 0:
        for link in links:
            numbers = numbers + np.frombuffer(receive(link, numbers.nbytes), numbers.dtype).reshape(numbers.shape)
        for link in links:
            link.sendall(numbers.tobytes())
        return numbers
    links[0].sendall(numbers.tobytes())
    return np.frombuffer(receive(links[0], numbers.nbytes), numbers.dtype).reshape(numbers.shape)


def descend(pixels, digits, links):
    count = len(pixels)
    pixels, digits = pixels[RANK::SIZE], digits[RANK::SIZE]
    done, weights, bias = train.begin()
    wanted = np.eye(train.CLASSES, dtype=np.float32)[digits]
    for epoch in range(done + 1, train.EPOCHS + 1):
        scores = pixels @ weights + bias
        chance = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        error = (chance - wanted) / np.float32(count)
        loss = -np.log(chance[np.arange(len(digits)), digits]).sum() / np.float32(count)
        step = sum_of_all(links, np.vstack([pixels.T @ error, error.sum(axis=0), np.full(train.CLASSES, loss)]).astype(np.float32))
        weights = weights - np.float32(train.RATE) * step[:train.PIXELS]
        bias = bias - np.float32(train.RATE) * step[train.PIXELS]
        if epoch % 50 == 0:
            train.tell(epoch, float(step[-1][0]))
            if RANK == 0:
                train.keep(epoch, weights, bias)
    return weights, bias


def main():
    pixels, digits = train.load()
    split = len(pixels) * 4 // 5
    weights, bias = descend(pixels[:split], digits[:split], meet())
    if RANK > 0:
        return
    right = float((np.argmax(pixels[split:] @ weights + bias, axis=1) == digits[split:]).mean())
    train.save(weights, bias)
    print(json.dumps({"accuracy": round(right, 4), "trained_on": split, "tested_on": len(pixels) - split, "ranks": SIZE}))


if __name__ == "__main__":
    main()
