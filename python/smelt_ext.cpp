// The Python module's C++ half: a thin binding of Session, Plan and the verbs' functions. No logic: names and types only.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "base/error.h"
#include "direct_runs.h"
#include "gil.h"
#include "graph/graph.h"
#include "python_api.h"
#include "run/eager_linear.h"
#include "run/eager_norm.h"
#include "smelt/sequences.h"
#include "smelt/session.h"
#include "text.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace smelt::python {
namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using DeviceArray = nb::ndarray<nb::ro, nb::device::cuda>;

DType type_of(nb::dlpack::dtype d) {
  using nb::dlpack::dtype_code;
  const auto code = static_cast<dtype_code>(d.code);
  const auto is = [&](dtype_code c, int bits) { return code == c && d.bits == bits && d.lanes == 1; };
  if (is(dtype_code::Float, 32)) return DType::f32;
  if (is(dtype_code::Float, 64)) return DType::f64;
  if (is(dtype_code::Float, 16)) return DType::f16;
  if (is(dtype_code::Bfloat, 16)) return DType::bf16;
  if (is(dtype_code::Bool, 8)) return DType::boolean;
  if (is(dtype_code::Complex, 64)) return DType::c64;
  if (is(dtype_code::Complex, 128)) return DType::c128;
  if (is(dtype_code::Float8_E4M3FN, 8)) return DType::f8e4m3fn;
  if (is(dtype_code::Float8_E4M3FNUZ, 8)) return DType::f8e4m3fnuz;
  if (is(dtype_code::Float8_E5M2, 8)) return DType::f8e5m2;
  if (is(dtype_code::Float8_E5M2FNUZ, 8)) return DType::f8e5m2fnuz;
  if (is(dtype_code::Float8_E8M0FNU, 8)) return DType::f8e8m0;
  constexpr DType ints[] = {DType::i8, DType::i16, DType::i32, DType::i64},
                  uints[] = {DType::u8, DType::u16, DType::u32, DType::u64};
  for (int i = 0; i < 4; ++i) {
    if (is(dtype_code::Int, 8 << i)) return ints[i];
    if (is(dtype_code::UInt, 8 << i)) return uints[i];
  }
  throw Error("an array's element type has no ONNX counterpart",
              "pass a NumPy or DLPack array of a type that numpy or ml_dtypes has", ExitCode::usage);
}

nb::dlpack::dtype dlpack_type(DType t) {
  using nb::dlpack::dtype_code;
  const auto make = [](dtype_code c, int bits) {
    return nb::dlpack::dtype{static_cast<uint8_t>(c), static_cast<uint8_t>(bits), 1};
  };
  switch (t) {
    case DType::bf16: return make(dtype_code::Bfloat, 16);
    case DType::boolean: return make(dtype_code::Bool, 8);
    case DType::c64: return make(dtype_code::Complex, 64);
    case DType::c128: return make(dtype_code::Complex, 128);
    case DType::f16:
    case DType::f32:
    case DType::f64: return make(dtype_code::Float, bits(t));
    default: return make(is_signed(t) ? dtype_code::Int : dtype_code::UInt, bits(t));
  }
}

DType onnx_dtype(int onnx_type) {
  if (onnx_type < static_cast<int>(DType::f32) || onnx_type > static_cast<int>(DType::i2))
    fail_usage("there is no ONNX element type {}, expected 1 to {}", onnx_type, static_cast<int>(DType::i2));
  return static_cast<DType>(onnx_type);
}

// Types that NumPy does not know come as integers of their width.
bool renames(DType own, DType to) {
  return (own == DType::u16 && to == DType::bf16) || (own == DType::u8 && bits(to) == 8 && is_float(to));
}

template <class A> bool is_dense(const A& a) {
  if (a.size() == 0) return true;
  int64_t dense = 1;
  for (size_t i = a.ndim(); i-- > 0; dense *= static_cast<int64_t>(a.shape(i)))
    if (a.shape(i) != 1 && a.stride(i) != dense) return false;
  return true;
}

void copy_strided(const Array& a, size_t axis, const std::byte* from, std::byte*& to) {
  if (axis == a.ndim()) {
    std::memcpy(to, from, a.itemsize());
    to += a.itemsize();
    return;
  }
  const int64_t step = a.stride(axis) * static_cast<int64_t>(a.itemsize());
  for (size_t i = 0; i < a.shape(axis); ++i, from += step) copy_strided(a, axis + 1, from, to);
}

template <class A> Shape shape_of(const A& a) {
  Shape shape;
  for (size_t i = 0; i < a.ndim(); ++i) shape.push_back(static_cast<int64_t>(a.shape(i)));
  return shape;
}

/// A copy of what is Python's, kept until the last reference goes, in whichever thread; for good where Python has ended before.
template <class A> std::shared_ptr<void> keeping(const A& a) {
  return std::shared_ptr<void>(new A(a), [](void* p) {
    if (!Py_IsInitialized()) return;
    const Locked lock;
    delete static_cast<A*>(p);
  });
}

// A view of an array in a GPU's memory. What made it must come before whoever uses it: that is asked of its __dlpack__.
Tensor to_device_tensor(const DeviceArray& a) {
  if (!is_dense(a)) fail_usage("an array on a GPU has strides, expected contiguous memory");
  return Tensor::borrow(type_of(a.dtype()), shape_of(a), const_cast<void*>(a.data()), keeping(a));
}

// A view of the array's memory; the array is kept alive with it. Strided memory is copied. `onnx_type` (0: the array's own)
// may only name a type that NumPy cannot.
Tensor to_tensor(const Array& a, int onnx_type) {
  Shape shape = shape_of(a);
  const DType own = type_of(a.dtype()), type = onnx_type ? onnx_dtype(onnx_type) : own;
  if (type != own && !renames(own, type)) fail_usage("the array has type {}, expected {}", name(own), name(type));
  if (!is_dense(a)) {
    Tensor t = Tensor::empty(type, std::move(shape));
    auto* to = static_cast<std::byte*>(t.raw());
    copy_strided(a, 0, static_cast<const std::byte*>(a.data()), to);
    return t;
  }
  return Tensor::borrow(type, std::move(shape), const_cast<void*>(a.data()), keeping(a));
}

// A copy of sub-byte elements that are packed as ONNX packs them.
Tensor packed(const Array& a, int onnx_type, const Shape& shape) {
  const DType type = onnx_dtype(onnx_type);
  if (bits(type) == 0 || bits(type) >= 8) fail_usage("elements of {} are not packed: expected 2 or 4 bits", name(type));
  if (type_of(a.dtype()) != DType::u8 || !is_dense(a)) fail_usage("packed elements come as contiguous bytes (u8)");
  const Tensor t = Tensor::borrow(type, shape, const_cast<void*>(a.data()));
  if (static_cast<int64_t>(a.nbytes()) != t.nbytes())
    fail_usage("{}{} is {} bytes, found {}", name(type), to_string(shape), t.nbytes(), a.nbytes());
  return t.clone();
}

Tensor on_host(const Tensor& t) {
  const Unlocked unlocked;
  return to_host(t);
}

// A view of the tensor's memory, or of a copy of it where it lies on a GPU; sub-byte and 8-bit float types come as bytes.
nb::object to_array(const Tensor& tensor) {
  if (tensor.type() == DType::string) return nb::cast(tensor.strings());
  auto* keep = new Tensor(on_host(tensor));
  const Tensor& t = *keep;
  const nb::capsule owner(keep, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::vector<size_t> shape(t.shape().begin(), t.shape().end());
  const DType type = t.type() == DType::bf16 ? DType::u16 : bits(t.type()) == 8 && is_float(t.type()) ? DType::u8 : t.type();
  if (bits(t.type()) < 8) shape = {static_cast<size_t>(t.nbytes())};
  return nb::cast(nb::ndarray<nb::numpy>(keep->raw(), shape.size(), shape.data(), owner, nullptr,
                                         dlpack_type(bits(t.type()) < 8 ? DType::u8 : type)),
                  nb::rv_policy::reference);
}

// (type, number), as DLPack counts devices.
std::pair<int, int> device_of(const Tensor& t) {
  const int gpu = gpu_of(t);
  if (gpu < 0) return {static_cast<int>(nb::device::cpu::value), 0};
  return {static_cast<int>(nb::device::cuda::value), gpu};
}

// The same memory as an object with __dlpack__, in its own type.
nb::object to_dlpack(const Tensor& t) {
  if (t.type() == DType::string || bits(t.type()) < 8 || (bits(t.type()) == 8 && is_float(t.type())))
    fail_usage("a tensor of {} has no counterpart in DLPack; take it as a NumPy array", name(t.type()));
  auto* keep = new Tensor(t);
  const nb::capsule owner(keep, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const std::vector<size_t> shape(t.shape().begin(), t.shape().end());
  const auto [device, number] = device_of(t);
  return nb::cast(
      nb::ndarray<nb::array_api>(keep->raw(), shape.size(), shape.data(), owner, nullptr, dlpack_type(t.type()), device, number),
      nb::rv_policy::reference);
}

void* stream_at(uintptr_t number) { return reinterpret_cast<void*>(number); }

// What a consumer asks for: the tensor's work comes before what it puts on `stream` (DLPack: 1 and 2 the default streams, -1 it
// takes care itself; None the default stream).
nb::object give_dlpack(const Tensor& t, const nb::kwargs& how) {
  nb::dict rest;
  int64_t stream = 1;
  for (const auto& [key, value] : how) {
    if (nb::cast<std::string>(key) != "stream")
      rest[key] = value;
    else if (!value.is_none())
      stream = nb::cast<int64_t>(value);
  }
  if (stream >= 0 && gpu_of(t) >= 0) share(t, stream_at(static_cast<uintptr_t>(stream)));
  return to_dlpack(t).attr("__dlpack__")(**nb::borrow<nb::kwargs>(rest));
}

// The tensors with an object that lives as long as their memory: the stream that they are used on.
std::map<std::string, Tensor> holding(const std::map<std::string, Tensor>& tensors, const nb::object& object) {
  if (object.is_none()) return tensors;
  struct Both {
    nb::object object;  // let go of last
    Tensor tensor;
  };
  std::map<std::string, Tensor> held;
  for (const auto& [name, t] : tensors) {
    held.emplace(name, t.type() == DType::string
                           ? t
                           : Tensor::borrow(t.type(), t.shape(), const_cast<void*>(t.raw()), keeping(Both{object, t})));
  }
  return held;
}

// A build holds no GIL, and Python only notes a Ctrl-C: this raises it, after each problem.
void check_signals(const Progress&) {
  const Locked lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// For what takes longer than a problem. Python handles signals in its main thread only: no other waits for the GIL here.
bool interrupted() {
  static const unsigned long main_thread = [] {
    const Locked lock;
    return nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  }();
  if (PyThread_get_thread_ident() == main_thread) check_signals({});
  return false;
}

nb::list shape_list(const SymShape& s) {
  nb::list out;
  for (const Dim& d : s) {
    if (d.known())
      out.append(d.value);
    else if (!d.symbol.empty())
      out.append(d.symbol);
    else
      out.append(nb::none());
  }
  return out;
}

nb::list infos(const std::vector<TensorInfo>& list) {
  nb::list out;
  for (const TensorInfo& i : list) out.append(nb::make_tuple(i.name, static_cast<int>(i.type), shape_list(i.shape)));
  return out;
}

/// What a model says of itself: producer, its version, domain, description, the graph's name, and what its author added.
nb::tuple model_words(const Graph& g) {
  const ModelInfo& m = g.model;
  return nb::make_tuple(m.producer, m.producer_version, m.domain, m.doc, g.name, m.metadata);
}

}  // namespace
}  // namespace smelt::python

NB_MODULE(smelt_ext, m) {
  using namespace smelt;
  using namespace smelt::python;

  // One Python class an exit code, made in errors.py; looked up when thrown, so that the module order does not matter.
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      const nb::object errors = nb::module_::import_("smelt.errors");
      const nb::object instance = errors.attr("from_code")(static_cast<int>(e.code()), e.what(), e.next());
      PyErr_SetObject(instance.type().ptr(), instance.ptr());
    }
  });

  nb::class_<Tensor>(
      m, "Tensor",
      "A result of Session.run_tensors: a dense tensor in the host's or a GPU's memory. Any library that speaks DLPack "
      "takes it without a copy: torch.from_dlpack(t).")
      .def_static("borrow", &to_tensor, "array"_a, "onnx_type"_a = 0,
                  "A view of an array in the host's memory. onnx_type names a type that NumPy lacks; 0 keeps the array's own.")
      .def_static("borrow_device", &to_device_tensor, "array"_a, "A view of a contiguous array in a GPU's memory.")
      .def_static(
          "strings",
          [](const Shape& shape, std::vector<std::string> values) { return Tensor::of_strings(shape, std::move(values)); },
          "shape"_a, "values"_a, "A tensor of strings.")
      .def_static("packed", &packed, "bytes"_a, "onnx_type"_a, "shape"_a,
                  "A copy of elements of 2 or 4 bits, packed as ONNX packs them: the first element in the low bits.")
      .def_prop_ro(
          "type", [](const Tensor& t) { return static_cast<int>(t.type()); }, "ONNX's number of the element type.")
      .def_prop_ro(
          "shape", [](const Tensor& t) { return t.shape(); }, "The extents.")
      .def_prop_ro(
          "data_ptr", [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.raw()); },
          "The address of the first element, on the host or on the GPU.")
      .def("array", &to_array,
           "A NumPy view of the memory, or of a copy on the host where it lies on a GPU. bfloat16 comes as uint16, strings as a "
           "list, 8-bit floats and types of fewer than 8 bits as uint8.")
      .def("__dlpack__", &give_dlpack)
      .def("__dlpack_device__", &device_of);

  nb::class_<Options>(m, "Options")
      .def("__init__",
           [](Options* self) {
             new (self) Options;
             self->progress = &check_signals;
             self->stop_when = &interrupted;
           })
      .def_rw("device", &Options::device)
      .def_rw("arch", &Options::arch)
      .def_rw("memory_limit", &Options::memory_limit)
      .def_rw("allow_fallback", &Options::allow_fallback)
      .def_rw("threads", &Options::threads)
      .def_rw("spin", &Options::spin)
      .def_rw("tuning_level", &Options::tuning_level)
      .def_rw("tuning_time_limit", &Options::tuning_time_limit)
      .def_rw("tactics", &Options::tactics)
      .def_rw("optimize", &Options::optimize)
      .def_rw("skip", &Options::skip)
      .def_rw("take_apart", &Options::take_apart)
      .def_rw("precision", &Options::precision)
      .def_rw("keep_fp32", &Options::keep_fp32)
      .def_rw("shapes", &Options::shapes)
      .def_prop_rw(
          "profiles",
          [](const Options& o) {
            std::vector<std::map<std::string, std::vector<Shape>>> all;
            for (const ShapeProfile& p : o.profiles)
              for (all.emplace_back(); const auto& [name, r] : p) all.back()[name] = {r.min, r.opt, r.max};
            return all;
          },
          [](Options& o, const std::vector<std::map<std::string, std::vector<Shape>>>& all) {
            o.profiles.clear();
            for (const auto& profile : all)
              for (o.profiles.emplace_back(); const auto& [name, r] : profile) {
                if (r.size() != 3) fail_usage("a profile of input '{}' has {} shapes, expected min, opt, max", name, r.size());
                o.profiles.back()[name] = {r[0], r[1], r[2]};
              }
          },
          "Ranges to prepare for: by input name, the shapes min, opt and max.")
      .def_rw("tune_new_shapes", &Options::tune_new_shapes)
      .def_rw("kept_shapes", &Options::kept_shapes)
      .def_rw("kept_bytes", &Options::kept_bytes)
      .def_rw("cache_dir", &Options::cache_dir)
      .def_rw("use_cache", &Options::use_cache)
      .def_rw("plan_kernels", &Options::plan_kernels)
      .def_rw("time_limit", &Options::time_limit);

  nb::class_<Cache>(m, "Cache").def(nb::init<std::string, std::string, Tensor, int64_t>());

  nb::class_<Session>(m, "Session")
      .def("__init__",
           [](Session* self, const std::string& path, const Options& options) {
             const Unlocked unlocked;
             new (self) Session(path, options);
           })
      .def("inputs", [](const Session& s) { return infos(s.inputs()); })
      .def("outputs", [](const Session& s) { return infos(s.outputs()); })
      .def("run",
           [](Session& s, const Feeds& feeds, const std::vector<std::string>& names, const std::vector<Cache>& caches) {
             const Unlocked unlocked;
             return s.run(feeds, names, caches);
           })
      .def("cancel", &Session::cancel)
      .def("model", [](const Session& s) { return model_words(s.plan()->graph()); })
      .def(
          "enqueue",
          [](Session& s, const Feeds& feeds, const std::vector<std::string>& names, const std::vector<Cache>& caches,
             uintptr_t stream, const nb::object& keep) {
            std::map<std::string, Tensor> made;
            {
              const Unlocked unlocked;
              made = s.enqueue(feeds, stream_at(stream), names, caches);
            }
            return holding(made, keep);
          },
          "feeds"_a, "names"_a, "caches"_a, "stream"_a, "keep"_a.none());

  nb::class_<DirectRuns>(m, "DirectRuns")
      .def(nb::init<Session&>(), nb::keep_alive<1, 2>())
      .def("run", &DirectRuns::run, "feeds"_a, "names"_a.none(),
           "The outputs as arrays; None, and nothing was run, unless all inputs are NumPy arrays of the model's types.");

  m.def("session_from_bytes", [](const nb::bytes& model, const Options& options) {
    const std::string text(static_cast<const char*>(model.data()), model.size());
    const Unlocked unlocked;
    return session_from_bytes(text, options);
  });
  m.def("optimize", &optimize, nb::call_guard<Unlocked>());
  m.def("profile", &profile, nb::call_guard<Unlocked>());
  m.def("explain", &explain, nb::call_guard<Unlocked>());
  m.def("bench", &bench, nb::call_guard<Unlocked>());
  m.def(
      "normalize",
      [](bool centre, float epsilon, const Tensor& x, const std::optional<Tensor>& residual, const std::optional<Tensor>& weight,
         const std::optional<Tensor>& bias, Tensor& y, const std::optional<Tensor>& sum, uintptr_t stream) {
        const Unlocked unlocked;
        Tensor to = sum.value_or(Tensor());
        run::eager_norm({centre, epsilon}, x, residual.value_or(Tensor()), weight.value_or(Tensor()), bias.value_or(Tensor()), y,
                        to, stream_at(stream));
      },
      "centre"_a, "epsilon"_a, "x"_a, "residual"_a.none(), "weight"_a.none(), "bias"_a.none(), "y"_a, "sum"_a.none(), "stream"_a);
  nb::class_<run::LinearWeights>(m, "LinearWeights").def(nb::init<Tensor>(), "weights"_a);
  m.def(
      "linear",
      [](const std::string& epilogue, bool by_columns, bool measures, const Tensor& x, const Tensor& w,
         const std::optional<Tensor>& bias, const std::optional<Tensor>& gate, const std::optional<Tensor>& residual, Tensor& y,
         run::LinearWeights* packed, uintptr_t stream) {
        const Unlocked unlocked;
        run::eager_linear({epilogue, by_columns, measures}, x, w, bias.value_or(Tensor()), gate.value_or(Tensor()),
                          residual.value_or(Tensor()), y, packed, stream_at(stream));
      },
      "epilogue"_a, "by_columns"_a, "measures"_a, "x"_a, "w"_a, "bias"_a.none(), "gate"_a.none(), "residual"_a.none(), "y"_a,
      "packed"_a.none(), "stream"_a);
  m.def("unstacked", &unstacked, "tensor"_a);
  m.def("tune", &tune, nb::call_guard<Unlocked>());
  m.def("keep", [](const Tensor& t, uintptr_t stream) { keep(t, stream_at(stream)); });
  m.def("gpu_count", &gpu_count);
  m.def("version", &version);
}
