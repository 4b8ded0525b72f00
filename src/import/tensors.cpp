#include "import/tensors.h"

#include <algorithm>
#include <cstring>

#include "base/booleans.h"
#include "base/error.h"

namespace smelt::importer {

std::pair<DType, Shape> header_of(const onnx::TensorProto& proto, const std::string& what) {
  const DType type = dtype_of_onnx(proto.data_type(), what);
  Shape shape(proto.dims().begin(), proto.dims().end());
  for (int64_t d : shape)
    if (d < 0) fail("{} has shape {}: a dimension is negative", what, to_string(shape));
  try {
    bytes(type, elements(shape));
  } catch (const std::exception&) {
    fail("{} has shape {} of {}: its size overflows 63 bits", what, to_string(shape), name(type));
  }
  return {type, std::move(shape)};
}

namespace {

template <class From, class To> void narrow(const google::protobuf::RepeatedField<From>& from, void* to, int64_t count) {
  auto* out = static_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<To>(from.Get(static_cast<int>(i)));
}

void normalize_bools(Tensor& t) {
  if (!has_other_booleans(t)) return;
  t = t.clone();
  make_booleans_0_or_1(t);
}

// Elements per entry of the typed field: a complex number takes two, packed types put one byte into each int32.
int64_t entries(DType type, int64_t count) {
  if (type == DType::c64 || type == DType::c128) return 2 * count;
  return bits(type) > 0 && bits(type) < 8 ? bytes(type, count) : count;
}

Tensor from_typed_fields(const onnx::TensorProto& proto, DType type, const Shape& shape, const std::string& what) {
  const int64_t count = elements(shape), need = entries(type, count);
  auto check = [&](const char* field, int64_t found) {
    if (found != need) fail("{} ({}{}) needs {} entries of {}, found {}", what, name(type), to_string(shape), need, field, found);
  };
  if (type == DType::string) {
    check("string_data", proto.string_data_size());
    return Tensor::of_strings(shape, {proto.string_data().begin(), proto.string_data().end()});
  }
  auto fill = [&](const char* field, const auto& from, auto as) {
    check(field, from.size());
    Tensor t = Tensor::empty(type, shape);
    using From = std::decay_t<decltype(from.Get(0))>;
    narrow<From, decltype(as)>(from, t.raw(), need);
    return t;
  };
  switch (type) {
    case DType::f32:
    case DType::c64: return fill("float_data", proto.float_data(), float{});
    case DType::f64:
    case DType::c128: return fill("double_data", proto.double_data(), double{});
    case DType::i64: return fill("int64_data", proto.int64_data(), int64_t{});
    case DType::u32: return fill("uint64_data", proto.uint64_data(), uint32_t{});
    case DType::u64: return fill("uint64_data", proto.uint64_data(), uint64_t{});
    case DType::i32: return fill("int32_data", proto.int32_data(), int32_t{});
    case DType::i16: return fill("int32_data", proto.int32_data(), int16_t{});
    case DType::u16:
    case DType::f16:
    case DType::bf16: return fill("int32_data", proto.int32_data(), uint16_t{});
    default: return fill("int32_data", proto.int32_data(), uint8_t{});
  }
}

void clear_data(onnx::TensorProto& p) {
  p.clear_raw_data();
  p.clear_float_data();
  p.clear_int32_data();
  p.clear_int64_data();
  p.clear_double_data();
  p.clear_uint64_data();
  p.clear_string_data();
  p.clear_external_data();
  p.clear_data_location();
}

bool is_external(const onnx::TensorProto& p) { return p.data_location() == onnx::TensorProto::EXTERNAL; }

}  // namespace

Tensor take_tensor(onnx::TensorProto& proto) {
  const std::string what = fmt::format("tensor '{}'", proto.name());
  auto [type, shape] = header_of(proto, what);
  Tensor t;
  if (!proto.raw_data().empty()) {
    if (type == DType::string) fail("{} holds strings in raw_data; expected string_data", what);
    const int64_t need = bytes(type, elements(shape)), found = static_cast<int64_t>(proto.raw_data().size());
    if (need != found) fail("{} ({}{}) needs {} bytes of raw_data, found {}", what, name(type), to_string(shape), need, found);
    std::shared_ptr<std::string> keep(proto.release_raw_data());
    t = Tensor::borrow(type, shape, keep->data(), keep);
  } else {
    t = from_typed_fields(proto, type, shape, what);
  }
  normalize_bools(t);
  return t;
}

Tensor read_tensor(const onnx::TensorProto& proto, const Loaded& model) {
  if (is_external(proto)) {
    // Stubs are this program's own: every other external tensor was resolved when the model was loaded.
    const auto& location = proto.external_data(0).value();
    return model.tensors.at(std::stoul(location.substr(1)));
  }
  onnx::TensorProto copy = proto;
  return take_tensor(copy);
}

void write_tensor(const Tensor& t, onnx::TensorProto& proto) {
  clear_data(proto);
  proto.set_data_type(static_cast<int32_t>(t.type()));
  proto.clear_dims();
  for (int64_t d : t.shape()) proto.add_dims(d);
  if (t.type() == DType::string)
    for (const auto& s : t.strings()) proto.add_string_data(s);
  else if (t.nbytes() > 0)
    proto.set_raw_data(t.raw(), static_cast<size_t>(t.nbytes()));
}

static void set_aside(Tensor t, onnx::TensorProto& p, Loaded& model) {
  normalize_bools(t);
  clear_data(p);
  p.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* e = p.add_external_data();
  e->set_key("location");
  e->set_value("#" + std::to_string(model.tensors.size()));
  model.tensors.push_back(std::move(t));
}

onnx::TensorProto keep_tensor(Tensor t, Loaded& model) {
  onnx::TensorProto p;
  if (t.nbytes() <= inline_bytes) {
    write_tensor(t, p);
    return p;
  }
  p.set_data_type(static_cast<int32_t>(t.type()));
  for (int64_t d : t.shape()) p.add_dims(d);
  set_aside(std::move(t), p, model);
  return p;
}

namespace {

class TakeOut {
 public:
  TakeOut(Loaded& model, ExternalData& external) : model_(model), external_(external) {}

  void graph(onnx::GraphProto& g) {
    for (auto& t : *g.mutable_initializer()) tensor(t);
    for (auto& sparse : *g.mutable_sparse_initializer()) dense(sparse, *g.add_initializer());  // taken out already
    g.clear_sparse_initializer();
    for (auto& n : *g.mutable_node()) node(n);
  }

  void node(onnx::NodeProto& n) {
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_t()) tensor(*a.mutable_t());
      for (auto& t : *a.mutable_tensors()) tensor(t);
      if (a.has_g()) graph(*a.mutable_g());
      for (auto& g : *a.mutable_graphs()) graph(g);
      if (a.has_sparse_tensor() && n.op_type() == "Constant") {
        onnx::TensorProto t;
        dense(*a.mutable_sparse_tensor(), t);
        a.Clear();
        a.set_name("value");
        a.set_type(onnx::AttributeProto::TENSOR);
        *a.mutable_t() = std::move(t);
      }
    }
  }

 private:
  void tensor(onnx::TensorProto& p) {
    auto [type, shape] = header_of(p, fmt::format("tensor '{}'", p.name()));
    if (is_external(p)) {
      Tensor t = external_.view(p, type, shape);
      if (t.nbytes() <= inline_bytes) {
        write_tensor(t, p);
      } else {
        set_aside(std::move(t), p);
      }
    } else if (bytes(type, elements(shape)) > inline_bytes || (type == DType::string && elements(shape) > inline_bytes)) {
      set_aside(take_tensor(p), p);
    } else if (!p.raw_data().empty() && bytes(type, elements(shape)) != static_cast<int64_t>(p.raw_data().size())) {
      take_tensor(p);  // says what is wrong; ONNX's checker lets a raw_data that is too long pass
    }
  }

  void set_aside(Tensor t, onnx::TensorProto& p) { importer::set_aside(std::move(t), p, model_); }

  // Sparse (values [n], indices [n] or [n, rank]) → dense. A dense size out of proportion to what is stored is refused, so that a
  // small file cannot ask for all memory.
  void dense(onnx::SparseTensorProto& sparse, onnx::TensorProto& out) {
    auto& values_proto = *sparse.mutable_values();
    const std::string what = fmt::format("sparse tensor '{}'", values_proto.name());
    out.set_name(values_proto.name());
    out.set_data_type(values_proto.data_type());
    *out.mutable_dims() = sparse.dims();
    auto [type, shape] = header_of(out, what);
    const Tensor values = stored(values_proto), indices = stored(*sparse.mutable_indices());
    const int64_t size = elements(shape), rank = static_cast<int64_t>(shape.size()), width = bits(type) / 8;
    if (width == 0) fail_unsupported("{} has element type {}: expected one of whole bytes", what, name(type));
    const int64_t limit = (int64_t{64} << 20) + 1024 * (values.nbytes() + indices.nbytes());
    if (bytes(type, size) > limit)
      fail_unsupported("{} is {} bytes when dense, expected at most {} for {} stored values", what, bytes(type, size), limit,
                       values.size());
    const bool linear = indices.rank() == 1;
    if (indices.type() != DType::i64 || values.rank() != 1 || (!linear && (indices.rank() != 2 || indices.shape()[1] != rank)) ||
        indices.shape()[0] != values.size())
      fail("{}: expected values [n] and int64 indices [n] or [n, {}], found {} and {}{}", what, rank, to_string(values.shape()),
           name(indices.type()), to_string(indices.shape()));
    Tensor t = Tensor::zeros(type, shape);
    for (int64_t i = 0; i < values.size(); ++i) {
      int64_t at = linear ? indices.data<int64_t>()[i] : 0;
      for (int64_t d = 0; !linear && d < rank; ++d) {
        const int64_t k = indices.data<int64_t>()[i * rank + d];
        if (k < 0 || k >= shape[static_cast<size_t>(d)])
          fail("{}: index {} is outside dimension {} of {}", what, k, d, to_string(shape));
        at = at * shape[static_cast<size_t>(d)] + k;
      }
      if (at < 0 || at >= size) fail("{}: index {} is outside its {} elements", what, at, size);
      std::memcpy(static_cast<uint8_t*>(t.raw()) + at * width, static_cast<const uint8_t*>(values.raw()) + i * width,
                  static_cast<size_t>(width));
    }
    if (t.nbytes() <= inline_bytes) {
      write_tensor(t, out);
    } else {
      set_aside(std::move(t), out);
    }
  }

  Tensor stored(onnx::TensorProto& p) {
    if (!is_external(p)) return take_tensor(p);
    auto [type, shape] = header_of(p, fmt::format("tensor '{}'", p.name()));
    return external_.view(p, type, shape);
  }

  Loaded& model_;
  ExternalData& external_;
};

}  // namespace

void take_out_tensors(Loaded& model, ExternalData& external) {
  TakeOut take(model, external);
  take.graph(*model.proto.mutable_graph());
  for (auto& f : *model.proto.mutable_functions())
    for (auto& n : *f.mutable_node()) take.node(n);
}

}  // namespace smelt::importer
