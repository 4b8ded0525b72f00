"""ai.onnx.ml as converters write it: trees, support vectors and linear models by their kernels, by their references and by ONNX Runtime."""
import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
import smelt
from onnx import TensorProto, helper

ML = "ai.onnx.ml"
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


def model(op, x, outputs, extra=(), types=None, version=3, **attributes):
    """One node of ai.onnx.ml over x [N, C], and the nodes of `extra` behind it."""
    node = helper.make_node(op, ["x"], outputs, "model", domain=ML, **attributes)
    info = helper.make_tensor_value_info("x", TYPES[x.dtype.name], ["N", *x.shape[1:]])
    last = extra[-1].output if extra else outputs
    results = types or [helper.make_empty_tensor_value_info(o) for o in last]
    graph = helper.make_graph([node, *extra], "classical", [info], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(ML, version)], ir_version=10)


def by_kernels(m, x, **options):
    return smelt.Session(m.SerializeToString(), threads=2, tuning_level=0, **options).run(None, {"x": x})


def by_references(m, x):
    return by_kernels(m, x, tactics="-cpu")


def by_onnxruntime(m, x):
    return onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})


def same(found, expected, tolerance=2e-5):
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        if e.dtype.kind in "OUSi":
            assert f.tolist() == e.tolist()
        else:
            np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance)


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def grow(rng, trees, depth, features, modes=MODES, missing=False):
    """The nodes_ attributes of trees of uneven depths, and the leaves as (tree, node). missing: NaNs have a branch to take, and
    some branches compare with one."""
    rows, leaves = [], []
    for tree in range(trees):
        count = 1
        waiting = [(0, 0)]
        while waiting:
            node, level = waiting.pop()
            if level == depth or (level > 0 and rng.random() < 0.2):
                rows.append((tree, node, "LEAF", 0, 0.0, 0, 0, 0))
                leaves.append((tree, node))
                continue
            yes, no = count, count + 1
            count += 2
            split = float(np.round(rng.uniform(-2, 2) * 2) / 2)   # often the value of a feature
            if missing and rng.random() < 0.1:
                split = np.nan
            rows.append((tree, node, str(rng.choice(modes)), int(rng.integers(features)), split, yes, no,
                         int(missing and rng.random() < 0.5)))
            waiting += [(yes, level + 1), (no, level + 1)]
    order = rng.permutation(len(rows))
    names = ("nodes_treeids", "nodes_nodeids", "nodes_modes", "nodes_featureids", "nodes_values", "nodes_truenodeids",
             "nodes_falsenodeids", "nodes_missing_value_tracks_true")
    columns = {name: [rows[i][k] for i in sorted(order)] for k, name in enumerate(names)}
    return columns, leaves


def sample(rng, rows, features, dtype=np.float32):
    x = np.round(rng.uniform(-3, 3, (rows, features)) * 2) / 2
    if np.dtype(dtype).kind == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
    return x.astype(dtype)


def weigh(prefix, leaves, ids, weights):
    return {f"{prefix}_treeids": [t for t, _ in leaves], f"{prefix}_nodeids": [n for _, n in leaves], f"{prefix}_ids": list(ids),
            f"{prefix}_weights": [float(w) for w in weights]}


@pytest.mark.parametrize("rows", [1, 3, 15, 16, 17, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_regressors_of_trees(rows, dtype):
    rng = np.random.default_rng(rows)
    nodes, leaves = grow(rng, 37, 6, 5, missing=True)
    for aggregate, targets, base in itertools.product(("SUM", "AVERAGE", "MIN", "MAX"), (1, 3), (False, True)):
        every = [leaf for leaf in leaves for _ in range(targets)]   # a weight for each target, as ONNX Runtime leaves out targets without
        ids = [t for _ in leaves for t in range(targets)]
        attributes = weigh("target", every, ids, rng.uniform(-1, 1, len(every)))
        if base:
            attributes["base_values"] = [0.5 + t for t in range(targets)]
        m = model("TreeEnsembleRegressor", sample(rng, rows, 5, dtype), ["y"], n_targets=targets, aggregate_function=aggregate, **nodes,
                  **attributes)
        x = sample(rng, rows, 5, dtype)
        found = by_kernels(m, x)
        same(found, by_references(m, x), 1e-6)
        if np.dtype(dtype).kind == "f":   # ONNX Runtime has no regressors over integers
            same(found, by_onnxruntime(m, x))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_classifiers_of_trees(classes, transform):
    """Of two classes as converters write them: weights of one class only."""
    rng = np.random.default_rng(classes)
    nodes, leaves = grow(rng, 21, 5, 4)
    for low, base in itertools.product((0, -1), (False, True)):
        width = 1 if classes == 2 else classes
        every = [leaf for leaf in leaves for _ in range(width)]
        attributes = weigh("class", every, [k for _ in leaves for k in range(width)], rng.uniform(low, 1, len(every)) / 21)
        if base:
            attributes["base_values"] = [0.1 * k for k in range(1, width + 1)]
        for rows in (1, 20, 130):
            x = sample(rng, rows, 4)
            m = model("TreeEnsembleClassifier", x, ["label", "scores"], post_transform=transform,
                      classlabels_int64s=[10 * k for k in range(classes)], **nodes, **attributes)
            found = by_kernels(m, x)
            same(found, by_references(m, x), 1e-6)
            if not (classes > 2 and transform == "SOFTMAX_ZERO"):
                same(found, by_onnxruntime(m, x))


def test_trees_take_the_new_form_too():
    """TreeEnsemble (version 5): sets of members, leaves of their own, double splits."""
    rng = np.random.default_rng(2)
    x = sample(rng, 50, 3, np.float64)
    tensor = lambda name, kind, values: helper.make_tensor(name, kind, [len(values)], values)   # noqa: E731
    m = model("TreeEnsemble", x, ["y"], n_targets=2, aggregate_function=1, post_transform=0, tree_roots=[0, 2], version=5,
              nodes_featureids=[0, 1, 2], nodes_splits=tensor("s", TensorProto.DOUBLE, [0.5, 1.0, 0.0]),
              nodes_modes=tensor("m", TensorProto.UINT8, [0, 6, 4]), membership_values=tensor("v", TensorProto.DOUBLE, [1.0, -2.0, np.nan]),
              nodes_truenodeids=[1, 0, 2], nodes_falsenodeids=[3, 1, 0], nodes_trueleafs=[0, 1, 1], nodes_falseleafs=[1, 1, 1],
              leaf_targetids=[0, 1, 0, 1], leaf_weights=tensor("w", TensorProto.DOUBLE, [0.1, 0.2, 0.4, 0.8]))
    same(by_kernels(m, x), by_references(m, x), 1e-12)


def cycle(nodes):
    nodes["nodes_falsenodeids"][0] = 0


def orphan(nodes):
    nodes["nodes_truenodeids"][0] = 99


def wide(nodes):
    nodes["nodes_featureids"][0] = 7


def shorter(nodes):
    nodes["nodes_values"].pop()


def twice(nodes):
    nodes["nodes_nodeids"][2] = 1


@pytest.mark.parametrize(("break_it", "said"), [(cycle, "cycle"), (orphan, "does not exist"), (wide, "feature 7"),
                                                (shorter, "different lengths"), (twice, "two nodes")])
def test_broken_trees_are_refused(break_it, said):
    nodes = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
             "nodes_featureids": [0, 0, 0], "nodes_values": [0.0, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
             "nodes_falsenodeids": [2, 0, 0]}
    x = np.ones((2, 2), np.float32)
    weights = weigh("target", [(0, 1), (0, 2)], [0, 0], [1, 2])
    same(by_kernels(model("TreeEnsembleRegressor", x, ["y"], n_targets=1, **nodes, **weights), x), [np.full((2, 1), 2, np.float32)])
    break_it(nodes)
    m = model("TreeEnsembleRegressor", x, ["y"], n_targets=1, **nodes, **weights)
    for run in (by_kernels, by_references):
        with pytest.raises(smelt.Error, match=said):
            run(m, x)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel):
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (70, 6)).astype(np.float32)
    params = [0.3, 0.2, 2.0]

    def attributes(supports, rows, rho):
        return {"kernel_type": kernel, "kernel_params": params, "rho": rng.uniform(-0.3, 0.3, rho).tolist(),
                "support_vectors": rng.uniform(-1, 1, supports * 6).tolist(), "coefficients": rng.uniform(-1, 1, supports * rows).tolist()}

    for one_class in (0, 1):
        m = model("SVMRegressor", x, ["y"], n_supports=20, one_class=one_class, **attributes(20, 1, 1))
        same(by_kernels(m, x), by_onnxruntime(m, x))
        same(by_kernels(m, x), by_references(m, x), 1e-6)
    for classes, probabilities in itertools.product((2, 3, 4), (False, True)):
        pairs = classes * (classes - 1) // 2
        own = attributes(8 * classes, classes - 1, pairs)
        if probabilities:
            own |= {"prob_a": rng.uniform(-2, -1, pairs).tolist(), "prob_b": rng.uniform(-0.2, 0.2, pairs).tolist()}
        m = model("SVMClassifier", x, ["label", "scores"], vectors_per_class=[8] * classes, classlabels_ints=[7 * k for k in range(classes)],
                  **own)
        same(by_kernels(m, x), by_onnxruntime(m, x), 2e-4)
        same(by_kernels(m, x), by_references(m, x), 1e-6)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(transform):
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (70, 6)).astype(np.float32)
    for classes, labels in ((1, 2), (2, 2), (4, 4)):
        m = model("LinearClassifier", x, ["label", "scores"], coefficients=rng.uniform(-1, 1, 6 * classes).tolist(),
                  intercepts=rng.uniform(-0.1, 0.1, classes).tolist(), classlabels_ints=[3 * k + 1 for k in range(labels)],
                  post_transform=transform)
        same(by_kernels(m, x), by_references(m, x), 1e-6)
        same(by_kernels(m, x), by_onnxruntime(m, x))
    m = model("LinearRegressor", x, ["y"], coefficients=rng.uniform(-1, 1, 18).tolist(), intercepts=[0.1, 0.2, 0.3], targets=3)
    same(by_kernels(m, x), by_onnxruntime(m, x))


@pytest.mark.parametrize("version", [1, 3])
def test_labels_that_are_text_and_a_zip_map(version, capfd):
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (40, 6)).astype(np.float32)
    names = ["setosa", "versicolor", "virginica"]
    unzip = helper.make_node("ZipMap", ["scores"], ["probabilities"], "zip", domain=ML, classlabels_strings=names)
    cut = helper.make_node("Identity", ["text"], ["label"], "label")
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))
    outputs = [helper.make_tensor_value_info("label", TensorProto.STRING, ["N"]), helper.make_value_info("probabilities", maps)]
    m = model("LinearClassifier", x, ["text", "scores"], [cut, unzip], outputs, version, coefficients=rng.uniform(-1, 1, 18).tolist(),
              intercepts=[0.1, 0.2, 0.3], classlabels_strings=names, post_transform="SOFTMAX")
    label, rows = by_onnxruntime(m, x)
    found = by_kernels(m, x)
    same(found, [np.array(label, dtype=object), np.array([[row[name] for name in names] for row in rows], np.float32)])
    assert "'probabilities' is the tensor itself, its columns are setosa, versicolor, virginica" in capfd.readouterr().err


def test_a_plan_of_a_zip_map_lies_in_any_folder(command, tmp_path):
    x = np.random.default_rng(6).uniform(-1, 1, (5, 4)).astype(np.float32)
    unzip = helper.make_node("ZipMap", ["scores"], ["maps"], "zip", domain=ML, classlabels_int64s=[0, 1])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))
    m = model("LinearClassifier", x, ["label", "scores"], [unzip], [helper.make_value_info("maps", maps)],
              coefficients=np.linspace(-1, 1, 8).tolist(), intercepts=[0.1, 0.2], classlabels_ints=[0, 1], post_transform="SOFTMAX")
    (tmp_path / "plans").mkdir()
    onnx.save(m, tmp_path / "model.onnx")
    plan = tmp_path / "plans" / "plan.onnx"
    command("optimize", tmp_path / "model.onnx", "-o", plan, "--tuning-level", 0, "--no-cache")
    expected = by_kernels(m, x)
    same(smelt.Session(plan, tuning_level=0).run(None, {"x": x}), expected)
    same(onnxruntime.InferenceSession(plan, providers=["CPUExecutionProvider"]).run(None, {"x": x}), expected)


def test_what_reads_maps_is_refused():
    x = np.ones((2, 2), np.float32)
    read = helper.make_node("DictVectorizer", ["maps"], ["y"], "read", domain=ML, int64_vocabulary=[0, 1])
    m = model("ZipMap", x, ["maps"], [read], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])], classlabels_int64s=[0, 1])
    onnx.checker.check_model(m)
    with pytest.raises(smelt.UnsupportedError, match="DictVectorizer"):
        by_kernels(m, x)
