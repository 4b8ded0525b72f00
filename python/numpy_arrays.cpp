#include "numpy_arrays.h"

#include <string>
#include <utility>
#include <vector>

#include "gil.h"
#include "text.h"

namespace nb = nanobind;

namespace smelt::python {
namespace {

/// The beginnings of PyArrayObject_fields and of _PyArray_Descr.
struct ArrayFields {
  PyObject head;
  char* data;
  int rank;
  Py_ssize_t *shape, *strides;
  PyObject *base, *description;
  int flags;
};
struct Description {
  PyObject head;
  PyObject* type_object;
  char kind, letter, byte_order, old_flags;
  int number;
};

// Numbers of NumPy's functions, types and flags.
constexpr size_t array_type = 2, make_array = 93, set_base = 282;
constexpr int of_objects = 17;
constexpr int contiguous = 1, aligned = 0x100, writable = 0x400;

using MakeArray = PyObject*(PyTypeObject* type, int rank, const Py_ssize_t* shape, int number, const Py_ssize_t* strides,
                            void* data, int size, int flags, PyObject* made_of);
using SetBase = int(PyObject* array, PyObject* base);

/// NumPy's number of a type; -1 where it lacks the type, or smelt's own code has to look at the values.
int number_of(DType type) {
  switch (type) {
    case DType::boolean: return 0;
    case DType::i8: return 1;
    case DType::u8: return 2;
    case DType::i16: return 3;
    case DType::u16: return 4;
    case DType::i32: return 5;
    case DType::u32: return 6;
    case DType::i64: return sizeof(long) == 8 ? 7 : 9;
    case DType::u64: return sizeof(long) == 8 ? 8 : 10;
    case DType::f32: return 11;
    case DType::f64: return 12;
    case DType::f16: return 23;
    default: return -1;
  }
}

std::optional<Tensor> strings_of(const ArrayFields& a, Shape shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  const auto* values = reinterpret_cast<PyObject* const*>(a.data);
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    Py_ssize_t size = 0;
    const char* text = values[i] && PyUnicode_CheckExact(values[i]) ? PyUnicode_AsUTF8AndSize(values[i], &size) : nullptr;
    if (!text) {
      PyErr_Clear();
      return std::nullopt;
    }
    texts.emplace_back(text, static_cast<size_t>(size));
  }
  return Tensor::of_strings(std::move(shape), std::move(texts));
}

}  // namespace

NumpyArrays::NumpyArrays() {
  const nb::object numpy = nb::module_::import_("numpy");
  const bool second = nb::hasattr(numpy, "_core");
  const nb::object module_of_api = nb::module_::import_(second ? "numpy._core.multiarray" : "numpy.core.multiarray");
  api_ = static_cast<void**>(PyCapsule_GetPointer(nb::object(module_of_api.attr("_ARRAY_API")).ptr(), nullptr));
  if (!api_) throw nb::python_error();
}

bool NumpyArrays::has(DType type) { return type == DType::string || number_of(type) >= 0; }

std::optional<Tensor> NumpyArrays::tensor_of(nb::handle value, DType type) const {
  if (Py_TYPE(value.ptr()) != api_[array_type]) return std::nullopt;
  const auto& a = *reinterpret_cast<const ArrayFields*>(value.ptr());
  const auto& description = *reinterpret_cast<const Description*>(a.description);
  const bool strings = type == DType::string;
  if (description.number != (strings ? of_objects : number_of(type)) || description.byte_order == '>') return std::nullopt;
  if ((a.flags & contiguous) == 0 || (a.flags & aligned) == 0) return std::nullopt;
  Shape shape;
  for (int i = 0; i < a.rank; ++i) shape.push_back(a.shape[i]);
  if (strings) return strings_of(a, std::move(shape));
  Py_INCREF(value.ptr());
  return Tensor::borrow(type, std::move(shape), a.data, std::shared_ptr<void>(value.ptr(), [](void* array) {
                          if (!Py_IsInitialized()) return;
                          const Locked lock;
                          Py_DECREF(static_cast<PyObject*>(array));
                        }));
}

nb::object NumpyArrays::array_of(const Tensor& t) const {
  const bool strings = t.type() == DType::string;
  const int number = strings ? of_objects : number_of(t.type());
  const std::vector<Py_ssize_t> shape(t.shape().begin(), t.shape().end());
  const bool views = !strings && t.nbytes() > 0;
  const auto make = reinterpret_cast<MakeArray*>(api_[make_array]);
  nb::object array =
      nb::steal(make(static_cast<PyTypeObject*>(api_[array_type]), static_cast<int>(t.rank()), shape.data(), number, nullptr,
                     views ? const_cast<void*>(t.raw()) : nullptr, 0, views ? contiguous | aligned | writable : 0, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  if (views) {
    nb::capsule owner(new Tensor(t), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
    if (reinterpret_cast<SetBase*>(api_[set_base])(array.ptr(), owner.release().ptr()) != 0) throw nb::python_error();
  }
  if (!strings) return array;
  auto** values = reinterpret_cast<PyObject**>(reinterpret_cast<ArrayFields*>(array.ptr())->data);
  for (const std::string& text : t.strings()) {
    PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
    if (!made) throw nb::python_error();
    Py_XDECREF(std::exchange(*values++, made));
  }
  return array;
}

}  // namespace smelt::python
