"""Trains a classifier of handwritten digits, bit for bit the same each time: /in/digits/digits.csv in, /out/model/digits.onnx out. It leaves checkpoints, and goes
on from one in /in/resume to the same bytes.

A softmax regression by plain gradient descent in numpy, on one thread and from a fixed start, written as ONNX."""
import json
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUT = os.path.join(os.environ.get("SIJIL_INPUTS", "in"), "digits")
OUTPUT = os.environ.get("SIJIL_OUTPUTS", "out")
CLASSES, PIXELS, EPOCHS, RATE = 10, 64, 200, 0.5


def load():
    rows = np.loadtxt(os.path.join(INPUT, "digits.csv"), delimiter=",", dtype=np.float32)
    return rows[:, :PIXELS] / np.float32(16), rows[:, PIXELS].astype(np.int64)


def tell(epoch, loss):
    print(f"epoch {epoch:3} of {EPOCHS}: loss {loss:.4f}", file=sys.stderr, flush=True)
    if "SIJIL_HEARTBEAT" in os.environ:
        with open(os.environ["SIJIL_HEARTBEAT"], "w", encoding="ascii") as file:
            file.write(f"epoch {epoch} of {EPOCHS}, loss {loss:.4f}\n")


def begin():
    """From a checkpoint, if there is one: the epochs that are done, weights, bias."""
    kept = os.path.join(os.environ.get("SIJIL_INPUTS", "in"), "resume", "state.npz")
    if not os.path.exists(kept):
        return 0, np.zeros((PIXELS, CLASSES), np.float32), np.zeros(CLASSES, np.float32)
    with np.load(kept) as state:
        return int(state["epoch"]), state["weights"], state["bias"]


def keep(epoch, weights, bias):
    """A checkpoint is finished once it has its name. The runner may still read the one before."""
    folder = os.environ.get("SIJIL_CHECKPOINTS", "")
    if not os.path.isdir(folder):
        return
    new = os.path.join(folder, ".new")
    os.mkdir(new)
    np.savez(os.path.join(new, "state.npz"), epoch=epoch, weights=weights, bias=bias)
    os.rename(new, os.path.join(folder, f"epoch-{epoch}"))
    for name in sorted(os.listdir(folder), key=lambda name: int(name.split("-")[1]))[:-2]:
        shutil.rmtree(os.path.join(folder, name))


def train(pixels, digits):
    done, weights, bias = begin()
    wanted = np.eye(CLASSES, dtype=np.float32)[digits]
    for epoch in range(done + 1, EPOCHS + 1):
        scores = pixels @ weights + bias
        chance = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        error = (chance - wanted) / np.float32(len(pixels))
        weights -= np.float32(RATE) * (pixels.T @ error)
        bias -= np.float32(RATE) * error.sum(axis=0)
        if epoch % 50 == 0:
            tell(epoch, float(-np.log(chance[np.arange(len(digits)), digits]).mean()))
            keep(epoch, weights, bias)
    return weights, bias


def save(weights, bias):
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["pixels", "weights", "bias"], ["scores"]), helper.make_node("ArgMax", ["scores"], ["digit"], axis=1, keepdims=0)],
        "digits",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", PIXELS])],
        [helper.make_tensor_value_info("digit", TensorProto.INT64, ["n"])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")])
    model = helper.make_model(graph, producer_name="digits", opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model)
    os.makedirs(os.path.join(OUTPUT, "model"))
    with open(os.path.join(OUTPUT, "model", "digits.onnx"), "wb") as file:
        file.write(model.SerializeToString(deterministic=True))


def main():
    pixels, digits = load()
    split = len(pixels) * 4 // 5
    weights, bias = train(pixels[:split], digits[:split])
    right = float((np.argmax(pixels[split:] @ weights + bias, axis=1) == digits[split:]).mean())
    save(weights, bias)
    print(json.dumps({"accuracy": round(right, 4), "trained_on": split, "tested_on": len(pixels) - split}))


if __name__ == "__main__":
    main()
