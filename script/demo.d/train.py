#!/usr/bin/python3
"""Trains a small real classifier on scikit-learn's bundled handwritten digits and writes model.onnx and metrics.json.

usage: train.py FOLDER
The same input gives the same bytes: one thread, fixed seed."""
import json
import os
import sys
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
warnings.filterwarnings("ignore")

import numpy
from onnx import TensorProto, checker, helper, numpy_helper, save
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

SEED, EPOCHS, HIDDEN, BATCH = 7, 25, 64, 64


def split():
    digits = load_digits()
    order = numpy.random.RandomState(SEED).permutation(len(digits.target))
    cut = int(len(order) * 0.8)
    pixels = digits.data.astype(numpy.float32)
    return [(pixels[part], digits.target[part]) for part in (order[:cut], order[cut:])]


def train(pixels, labels):
    model = MLPClassifier((HIDDEN,), random_state=SEED, learning_rate_init=3e-3, batch_size=BATCH)
    random = numpy.random.RandomState(SEED)
    for epoch in range(EPOCHS):
        for batch in numpy.array_split(random.permutation(len(labels)), len(labels) // BATCH):
            model.partial_fit(pixels[batch], labels[batch], classes=list(range(10)))
        if (epoch + 1) % 5 == 0:
            print(f"    epoch {epoch + 1:2} of {EPOCHS}: loss {model.loss_:.4f}", flush=True)
    return model


def export(model, mean, scale, path):
    """Sub, Div, then Gemm and Relu for each layer, Softmax at the end: opset 13, IR 7."""
    weights = [numpy_helper.from_array(mean, "mean"), numpy_helper.from_array(scale, "scale")]
    nodes = [helper.make_node("Sub", ["x", "mean"], ["c"]), helper.make_node("Div", ["c", "scale"], ["h0"])]
    layers = list(zip(model.coefs_, model.intercepts_))
    for index, (matrix, bias) in enumerate(layers):
        weights += [numpy_helper.from_array(matrix.astype(numpy.float32), f"w{index}"),
                    numpy_helper.from_array(bias.astype(numpy.float32), f"b{index}")]
        last = index == len(layers) - 1
        nodes.append(helper.make_node("Gemm", [f"h{index}", f"w{index}", f"b{index}"], ["logits" if last else f"z{index}"]))
        nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1) if last
                     else helper.make_node("Relu", [f"z{index}"], [f"h{index + 1}"]))
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])], weights)
    onnx = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="sijil-demo")
    onnx.ir_version = 7
    checker.check_model(onnx, full_check=True)
    save(onnx, path)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    (pixels, labels), (held_pixels, held_labels) = split()
    mean, scale = pixels.mean(0), pixels.std(0)
    scale[scale < 1e-6] = 1
    model = train((pixels - mean) / scale, labels)
    export(model, mean.astype(numpy.float32), scale.astype(numpy.float32), os.path.join(folder, "model.onnx"))
    accuracy = float((model.predict((held_pixels - mean) / scale) == held_labels).mean())
    with open(os.path.join(folder, "metrics.json"), "w", encoding="utf-8") as file:
        json.dump({"task": "classification", "seed": SEED, "rows_train": len(labels),
                   "rows_held_out": len(held_labels), "accuracy": round(accuracy, 4)}, file, indent=1)
    print(f"    accuracy on {len(held_labels)} digits that it never saw: {accuracy:.1%}")


main()
