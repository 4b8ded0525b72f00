// Every inference function of ONNX, in every version, with types, values and attributes as odd as a damaged model can have them:
// it may throw, but must neither crash nor fill the memory. Each runs in a process of its own.
#include <gtest/gtest.h>
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "import/stages.h"
#include "support/child.h"
#include "support/odd.h"
#include "support/schemas.h"

namespace smelt::importer {
namespace {

class Odd : public smelt::test::Odd {
 public:
  using smelt::test::Odd::Odd;

  void shape(onnx::TensorShapeProto& s) {
    for (size_t rank = below(6); rank > 0; --rank) {
      auto* d = s.add_dim();
      if (one_in(4))
        d->set_dim_param("n");
      else if (!one_in(4))
        d->set_dim_value(number());
    }
  }
  void type(onnx::TypeProto& t, int depth = 0) {
    const int element = static_cast<int>(below(24));
    switch (depth < 3 ? below(12) : 6) {
      case 0: return type(*t.mutable_sequence_type()->mutable_elem_type(), depth + 1);
      case 1: return type(*t.mutable_optional_type()->mutable_elem_type(), depth + 1);
      case 2: t.mutable_map_type()->set_key_type(element); return type(*t.mutable_map_type()->mutable_value_type(), depth + 1);
      case 3: return t.mutable_sparse_tensor_type()->set_elem_type(element);
      case 4: return;
      default: t.mutable_tensor_type()->set_elem_type(one_in(2) ? static_cast<int>(onnx::TensorProto::FLOAT) : element);
    }
    if (!one_in(4)) shape(*t.mutable_tensor_type()->mutable_shape());
  }
  void tensor(onnx::TensorProto& t) {
    t.set_data_type(one_in(3) ? static_cast<int>(below(24)) : static_cast<int>(onnx::TensorProto::INT64));
    const size_t n = below(5);
    if (!one_in(4)) t.add_dims(one_in(6) ? number() : static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      if (t.data_type() == onnx::TensorProto::FLOAT)
        t.add_float_data(static_cast<float>(number()));
      else if (t.data_type() == onnx::TensorProto::INT32)
        t.add_int32_data(static_cast<int32_t>(number()));
      else
        t.add_int64_data(number());
    }
  }
  void attribute(onnx::AttributeProto& a, onnx::AttributeProto::AttributeType kind) {
    a.set_type(kind);
    switch (kind) {
      case onnx::AttributeProto::FLOAT: return a.set_f(static_cast<float>(number()));
      case onnx::AttributeProto::INT: return a.set_i(number());
      case onnx::AttributeProto::STRING: {
        static constexpr const char* words[] = {"",          "SAME_UPPER", "VALID",         "linear",
                                                "ij,jk->ik", "...i->",     "bidirectional", ",->"};
        return a.set_s(words[below(std::size(words))]);
      }
      case onnx::AttributeProto::INTS:
        for (size_t n = below(6); n > 0; --n) a.add_ints(number());
        return;
      case onnx::AttributeProto::FLOATS:
        for (size_t n = below(6); n > 0; --n) a.add_floats(static_cast<float>(number()));
        return;
      case onnx::AttributeProto::STRINGS:
        for (size_t n = below(4); n > 0; --n) a.add_strings("s");
        return;
      case onnx::AttributeProto::TENSOR: return tensor(*a.mutable_t());
      case onnx::AttributeProto::TYPE_PROTO: return type(*a.mutable_tp());
      case onnx::AttributeProto::SPARSE_TENSOR:
        tensor(*a.mutable_sparse_tensor()->mutable_values());
        tensor(*a.mutable_sparse_tensor()->mutable_indices());
        for (size_t n = below(4); n > 0; --n) a.mutable_sparse_tensor()->add_dims(number());
        return;
      default: return;
    }
  }
};

/// A body that gives any types.
class Body final : public onnx::GraphInferencer {
 public:
  explicit Body(Odd& odd) : types_(odd.below(4)) {
    for (auto& t : types_) odd.type(t);
  }
  std::vector<const onnx::TypeProto*> doInferencing(const std::vector<const onnx::TypeProto*>&,
                                                    const std::vector<const onnx::TensorProto*>&) override {
    std::vector<const onnx::TypeProto*> out;
    for (const auto& t : types_) out.push_back(&t);
    return out;
  }

 private:
  std::vector<onnx::TypeProto> types_;
};

struct Inputs {
  std::vector<std::unique_ptr<onnx::TypeProto>> types;  // null: not known
  std::vector<std::unique_ptr<onnx::TensorProto>> values;
  std::vector<std::unique_ptr<onnx::TensorShapeProto>> symbols;
  std::map<std::string, onnx::AttributeProto> attributes;
  std::vector<onnx::TypeProto> outputs;

  Inputs(Odd& odd, const onnx::OpSchema& schema) {
    const auto count = [&](int least, int most) {
      return odd.below(static_cast<size_t>(std::min(most, least + 3) - least + 1)) + static_cast<size_t>(least);
    };
    outputs.resize(count(schema.min_output(), schema.max_output()));
    for (size_t n = count(schema.min_input(), schema.max_input()); n > 0; --n) {
      types.push_back(odd.one_in(8) ? nullptr : std::make_unique<onnx::TypeProto>());
      if (types.back()) odd.type(*types.back());
      values.push_back(odd.one_in(2) ? nullptr : std::make_unique<onnx::TensorProto>());
      if (values.back()) odd.tensor(*values.back());
      symbols.push_back(odd.one_in(2) ? nullptr : std::make_unique<onnx::TensorShapeProto>());
      if (symbols.back()) odd.shape(*symbols.back());
    }
    for (const auto& [name, a] : schema.attributes()) {
      if (odd.one_in(2)) continue;
      attributes[name].set_name(name);
      odd.attribute(attributes[name], a.type);
    }
  }
  const onnx::AttributeProto* attribute(const std::string& name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? nullptr : &found->second;
  }
};

class Context final : public onnx::InferenceContext {
 public:
  Context(Inputs& in, Odd& odd) : in_(in), body_(odd) {}
  const onnx::AttributeProto* getAttribute(const std::string& name) const override { return in_.attribute(name); }
  size_t getNumInputs() const override { return in_.types.size(); }
  const onnx::TypeProto* getInputType(size_t i) const override { return in_.types.at(i).get(); }
  const onnx::TensorProto* getInputData(size_t i) const override { return in_.values.at(i).get(); }
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t i) const override { return in_.symbols.at(i).get(); }
  size_t getNumOutputs() const override { return in_.outputs.size(); }
  onnx::TypeProto* getOutputType(size_t i) override { return &in_.outputs.at(i); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string&) override { return &body_; }

 private:
  Inputs& in_;
  Body body_;
};

class Propagation final : public onnx::DataPropagationContext {
 public:
  explicit Propagation(Inputs& in) : in_(in) {}
  const onnx::AttributeProto* getAttribute(const std::string& name) const override { return in_.attribute(name); }
  size_t getNumInputs() const override { return in_.types.size(); }
  const onnx::TypeProto* getInputType(size_t i) const override { return in_.types.at(i).get(); }
  size_t getNumOutputs() const override { return in_.outputs.size(); }
  const onnx::TypeProto* getOutputType(size_t i) const override { return &in_.outputs.at(i); }
  /// As ONNX does: an entry for each element of a vector whose length is known.
  const onnx::TensorShapeProto* getInputData(size_t i) override {
    const auto* type = in_.types.at(i).get();
    if (in_.symbols[i] || !type || !type->has_tensor_type() || type->tensor_type().shape().dim_size() != 1)
      return in_.symbols[i].get();
    in_.symbols[i] = std::make_unique<onnx::TensorShapeProto>();
    for (int64_t k = 0; k < type->tensor_type().shape().dim(0).dim_value(); ++k) in_.symbols[i]->add_dim();
    return in_.symbols[i].get();
  }
  void addOutputData(size_t, onnx::TensorShapeProto&&) override {}

 private:
  Inputs& in_;
};

enum Ending { returned = 0, out_of_memory = 3 };

Ending try_inference(const onnx::OpSchema& schema, unsigned seed, int times) {
  smelt::test::limit_addresses(size_t{2} << 30);
  alarm(60);
  const auto attempt = [](const auto& f) {
    try {
      f();
    } catch (const std::bad_alloc&) {
      return false;
    } catch (const std::exception&) {  // an InferenceError, or what a vector or a map throws
    }
    return true;
  };
  Odd odd(seed);
  for (int i = 0; i < times; ++i) {
    Inputs in(odd, schema);
    Context context(in, odd);
    if (!attempt([&] { schema.GetTypeAndShapeInferenceFunction()(context); })) return out_of_memory;
    Propagation propagation(in);
    if (!attempt([&] { schema.GetDataPropagationFunction()(propagation); })) return out_of_memory;
  }
  return returned;
}

TEST(Inference, survives_any_types_values_and_attributes) {
  const char* asked = getenv("SMELT_INFERENCE_TIMES");
  const int times = asked ? atoi(asked) : 400;
  int tried = 0;
  for (const auto& known : smelt::test::all_schemas()) {
    const auto* schema = guarded_schemas().GetSchema(known.Name(), known.SinceVersion(), known.domain());
    ASSERT_NE(schema, nullptr) << known.Name();
    const int status = smelt::test::in_child([&] { return try_inference(*schema, static_cast<unsigned>(tried), times); });
    EXPECT_EQ(status, returned) << known.domain() << "." << known.Name() << " since " << known.SinceVersion() << ": "
                                << (status < 0 ? strsignal(-status) : "memory");
    ++tried;
  }
  EXPECT_GT(tried, 500);
}

}  // namespace
}  // namespace smelt::importer
