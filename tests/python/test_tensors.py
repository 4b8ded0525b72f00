"""What goes into a Session and comes out of it: NumPy arrays, DLPack and PyTorch tensors, lists; their types and memory."""
import numpy as np
import pytest
import smelt
from onnx import TensorProto as T


class Forwarded:
    """An array's DLPack, and nothing else of it."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_strided_input_is_read_as_numpy_reads_it(small_model):
    session = smelt.Session(small_model)
    x = np.random.default_rng(0).standard_normal((8, 8, 3, 2)).astype(np.float32).T
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], session.run(None, {"x": np.ascontiguousarray(x)})[0])


def test_a_dlpack_tensor_goes_in_and_a_result_comes_out_through_dlpack(small_model):
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    session = smelt.Session(small_model)
    [y] = session.run(None, {"x": Forwarded(x)})
    np.testing.assert_array_equal(np.from_dlpack(y), session.run(None, {"x": x})[0])


def test_contiguous_inputs_are_read_where_they_lie_and_results_handed_over_where_they_were_made(small_model):
    from smelt.session import to_numpy, to_tensor

    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    assert to_tensor(x).data_ptr == x.ctypes.data
    [tensor] = smelt.Session(small_model).run_tensors(None, {"x": x})
    y = to_numpy(tensor)
    assert y.ctypes.data == tensor.data_ptr
    assert np.from_dlpack(tensor).ctypes.data == tensor.data_ptr


def test_torch_tensors_go_in_and_out_without_a_copy(small_model):
    torch = pytest.importorskip("torch")
    from smelt.session import to_tensor

    x = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8).requires_grad_()
    assert to_tensor(x).data_ptr == x.data_ptr()
    session = smelt.Session(small_model)
    [tensor] = session.run_tensors(None, {"x": x})
    y = torch.from_dlpack(tensor)
    assert y.data_ptr() == tensor.data_ptr
    address = y.data_ptr()
    del tensor
    assert y.data_ptr() == address and torch.isfinite(y).all()
    np.testing.assert_array_equal(y.numpy(), session.run(None, {"x": x.detach().numpy()})[0])


def test_a_bfloat16_result_keeps_its_type_through_dlpack():
    torch = pytest.importorskip("torch")
    from conftest import model_of
    from onnx import helper

    model = model_of([helper.make_node("Add", ["x", "x"], ["y"])], [("x", T.BFLOAT16, [3])], [("y", T.BFLOAT16, [3])])
    [y] = smelt.Session(model).run_tensors(None, {"x": torch.tensor([1, 2, 3], dtype=torch.bfloat16)})
    assert torch.from_dlpack(y).dtype == torch.bfloat16 and torch.from_dlpack(y).tolist() == [2, 4, 6]


def identity(onnx_type, shape=None):
    from conftest import model_of
    from onnx import helper

    model = model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", onnx_type, shape)], [("y", onnx_type, shape)],
                     opset=25)
    model.ir_version = 11
    return smelt.Session(model, tuning_level=0, use_cache=False)


def refused(onnx_type, value):
    with pytest.raises(smelt.UsageError) as e:
        identity(onnx_type).run(None, {"x": value})
    return e.value.message


def test_a_dlpack_tensor_of_another_type_is_refused():
    torch = pytest.importorskip("torch")
    assert refused(T.INT64, torch.ones(2, 3, dtype=torch.int32)) == "input 'x' has type i32, expected i64"
    assert refused(T.DOUBLE, torch.ones(1 << 10, 3, dtype=torch.uint8)) == "input 'x' has type u8, expected f64"
    assert refused(T.BFLOAT16, torch.ones(2, dtype=torch.int16)) == "input 'x' has type i16, expected bf16"
    assert refused(T.FLOAT8E4M3FN, torch.ones(2).to(torch.float8_e5m2)) == "input 'x' has type f8e5m2, expected f8e4m3fn"
    assert refused(T.STRING, torch.ones(2)) == "input 'x' has type f32, expected string"
    [y] = identity(T.FLOAT8E4M3FN).run(None, {"x": torch.tensor([1.5, -2]).to(torch.float8_e4m3fn)})
    assert y.astype(np.float32).tolist() == [1.5, -2]


def test_bits_are_no_values_of_a_type_that_numpy_lacks():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert refused(T.BFLOAT16, np.ones(3, np.float32)) == "input 'x' has type f32, expected bf16"
    assert refused(T.BFLOAT16, np.ones(3, np.uint16)) == "input 'x' has type u16, expected bf16"
    assert refused(T.FLOAT8E4M3FN, np.ones(3, np.uint8)) == "input 'x' has type u8, expected f8e4m3fn"
    assert "has type float8_e4m3, expected one that ONNX has" in refused(T.FLOAT8E4M3FN, np.ones(3, ml_dtypes.float8_e4m3))
    for onnx_type, dtype in ((T.BFLOAT16, ml_dtypes.bfloat16), (T.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn)):
        x = np.array([1.5, -2, 0], dtype)
        np.testing.assert_array_equal(identity(onnx_type).run(None, {"x": x})[0], x)


def test_sub_byte_inputs_take_their_own_type_and_bytes_within_their_range():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert refused(T.INT4, np.full(3, 3, np.int64)) == "input 'x' has type i64, expected i4"
    assert refused(T.INT4, np.array([3, 100], np.int8)) == "input 'x' has the value 100, expected -8 to 7 (int4)"
    assert refused(T.UINT4, np.array([3, -1], np.int8)) == "input 'x' has the value -1, expected 0 to 15 (uint4)"
    assert refused(T.INT4, np.ones(3, ml_dtypes.uint4)) == "input 'x' has type u4, expected i4"
    for x in (np.array([3, -8, 7], np.int8), np.array([3, -8, 7], ml_dtypes.int4), [3, -8, 7]):
        assert identity(T.INT4).run(None, {"x": x})[0].astype(int).tolist() == [3, -8, 7]


def test_strings_are_not_made_of_numbers():
    assert refused(T.STRING, np.ones(2)) == "input 'x' has type f64, expected string"
    assert "values of type int" in refused(T.STRING, ["a", 1])
    for x in (["a", "b"], np.array(["a", "b"]), np.array(["a", b"b"], object)):
        assert identity(T.STRING).run(None, {"x": x})[0].tolist() == ["a", "b"]


@pytest.mark.parametrize("make, message", [
    (lambda: smelt.Tensor.borrow(np.ones(3, np.uint8), T.DOUBLE), "has type u8, expected f64"),
    (lambda: smelt.Tensor.borrow(np.ones(3, np.uint8), T.STRING), "has type u8, expected string"),
    (lambda: smelt.Tensor.borrow(np.ones(3, np.uint8), 99), "no ONNX element type 99"),
    (lambda: smelt.Tensor.packed(np.ones(1, np.uint8), T.FLOAT, [1000]), "f32 are not packed"),
    (lambda: smelt.Tensor.packed(np.ones(1, np.uint8), T.INT4, [1000]), "500 bytes, found 1"),
    (lambda: smelt.Tensor.packed(np.ones(8, np.uint8)[::2], T.INT4, [8]), "contiguous bytes"),
    (lambda: smelt.Tensor.packed(np.ones(2, np.float32), T.INT4, [16]), "contiguous bytes"),
])
def test_a_tensor_does_not_reach_beyond_its_memory(make, message):
    with pytest.raises(smelt.UsageError, match=message):
        make()


def test_a_strided_dlpack_object_is_read_as_its_strides_say():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for view in (x.T, x[:, ::2], x[:, ::-1, 1:3], x.transpose(1, 0, 2)[1:2], x[:0].T, x[0, 0, 0:1]):
        np.testing.assert_array_equal(identity(T.FLOAT).run(None, {"x": Forwarded(view)})[0], view)
        np.testing.assert_array_equal(smelt.Tensor.borrow(view).array(), view)


def test_lists_and_scalars_take_the_type_of_the_input():
    for onnx_type, value, expected in (
            (T.FLOAT, [[0.5] * 16], np.float32), (T.FLOAT, [[1, 2]], np.float32), (T.FLOAT, 0.5, np.float32),
            (T.INT32, [[1], [2]], np.int32), (T.INT32, 7, np.int32), (T.INT32, [], np.int32), (T.UINT8, [255], np.uint8),
            (T.BOOL, [True], np.bool_), (T.COMPLEX64, [1j, 2], np.complex64)):
        [y] = identity(onnx_type).run(None, {"x": value})
        assert y.dtype == expected and y.tolist() == value
    assert refused(T.INT32, [1.5]) == "input 'x' has type f64, expected i32"
    assert refused(T.BOOL, [2]) == "input 'x' has type i64, expected bool"
    assert refused(T.UINT8, [300]) == "input 'x' has the value 300, expected 0 to 255 (uint8)"
    assert "inhomogeneous" in refused(T.FLOAT, [[1.0], [1.0, 2.0]])


def test_lists_become_bfloat16():
    pytest.importorskip("ml_dtypes")
    assert identity(T.BFLOAT16).run(None, {"x": [0.5, 2]})[0].tolist() == [0.5, 2]
