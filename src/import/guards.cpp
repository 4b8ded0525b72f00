// ONNX's operators as shape inference sees them. An inference function that would follow a null pointer for an input of unknown
// type is not called then, and vectors that are too long for a shape are not computed element by element.
#include <onnx/defs/shape_inference.h>
#include <onnx/defs/tensor_proto_util.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include "import/schema.h"
#include "import/stages.h"

namespace smelt::importer {

namespace {

struct Needs {
  const char *op, *domain;
  int since;
};

// The functions that read the type of input 0 without checking that there is one. The others throw
// (tests/import/inference_test.cpp tries all of them).
constexpr Needs first_type[] = {{"DictVectorizer", "ai.onnx.ml", 1},
                                {"EyeLike", "", 9},
                                {"LabelEncoder", "ai.onnx.ml", 1},
                                {"RegexFullMatch", "", 20},
                                {"TreeEnsemble", "ai.onnx.ml", 5}};

constexpr int64_t longest = 1024;  // of a vector that may be a shape

/// How long input i is when it is a vector of known length; 0 otherwise.
int64_t vector_length(const auto& context, size_t i) {
  const onnx::TypeProto* type = i < context.getNumInputs() ? context.getInputType(i) : nullptr;
  if (!type || !type->has_tensor_type() || type->tensor_type().shape().dim_size() != 1) return 0;
  return type->tensor_type().shape().dim(0).dim_value();
}

void refuse_missing_type(onnx::OpSchema& schema) {
  if (std::none_of(std::begin(first_type), std::end(first_type), [&](const Needs& n) {
        return schema.Name() == n.op && schema.domain() == n.domain && schema.SinceVersion() >= n.since;
      }))
    return;
  schema.TypeAndShapeInferenceFunction([infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& c) {
    if (!c.getInputType(0)) fail_type_inference("the type of input 0 is not known");
    infer(c);
  });
}

/// ONNX makes a list as long as Split's num_outputs says before it compares that with the number of outputs, and a shape of as
/// many extents as Expand's second input has elements.
void refuse_long_lists(onnx::OpSchema& schema) {
  if (!schema.domain().empty() || (schema.Name() != "Split" && schema.Name() != "Expand")) return;
  schema.TypeAndShapeInferenceFunction(
      [infer = schema.GetTypeAndShapeInferenceFunction(), split = schema.Name() == "Split"](onnx::InferenceContext& c) {
        const auto* parts = split ? c.getAttribute("num_outputs") : nullptr;
        if (parts && parts->i() > static_cast<int64_t>(c.getNumOutputs()))
          fail_shape_inference("num_outputs is ", parts->i(), ", but there are ", c.getNumOutputs(), " outputs");
        if (!split && vector_length(c, 1) > longest) fail_shape_inference("a shape of ", vector_length(c, 1), " extents");
        infer(c);
      });
}

/// ONNX's reading of an equation never gets past a character that is neither a letter nor of "...".
void refuse_odd_equations(onnx::OpSchema& schema) {
  if (!schema.domain().empty() || schema.Name() != "Einsum") return;
  schema.TypeAndShapeInferenceFunction([infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& c) {
    const auto* attribute = c.getAttribute("equation");
    std::string equation = attribute ? attribute->s() : "";
    std::erase(equation, ' ');
    std::stringstream left(equation.substr(0, equation.find("->")));
    for (std::string term; std::getline(left, term, ',');) {
      if (const size_t dots = term.find("..."); dots != std::string::npos) term.erase(dots, 3);
      if (!std::all_of(term.begin(), term.end(), [](char x) { return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z'); }))
        fail_shape_inference("the equation '", equation, "' has a term that is not of letters and one \"...\"");
    }
    infer(c);
  });
}

/// The shape of an input where it is known.
const onnx::TensorShapeProto* shape_of(onnx::InferenceContext& c, size_t i) {
  const onnx::TypeProto* type = i < c.getNumInputs() ? c.getInputType(i) : nullptr;
  return type && type->has_tensor_type() && type->tensor_type().has_shape() ? &type->tensor_type().shape() : nullptr;
}

/// The shape that was inferred of an output; null where there is none.
onnx::TensorShapeProto* inferred_shape(onnx::InferenceContext& c, size_t i) {
  onnx::TypeProto* type = i < c.getNumOutputs() ? c.getOutputType(i) : nullptr;
  const bool known = type && type->has_tensor_type() && type->tensor_type().has_shape();
  return known ? type->mutable_tensor_type()->mutable_shape() : nullptr;
}

/// ONNX reads extents that are not known as 0: of three axes the values' width, and in the scores their number.
void forget_extents_of_unknown_values(onnx::OpSchema& schema) {
  if (!schema.domain().empty() || schema.Name() != "Attention") return;
  schema.TypeAndShapeInferenceFunction([infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& c) {
    infer(c);
    const onnx::TensorShapeProto* v = shape_of(c, 2);
    const int rank = v ? v->dim_size() : 0;
    if (rank != 3 && rank != 4) return;
    onnx::TensorShapeProto *y = inferred_shape(c, 0), *scores = inferred_shape(c, 3);
    if (y && rank == 3 && y->dim_size() == 3 && !v->dim(2).has_dim_value()) y->mutable_dim(2)->clear_dim_value();
    if (scores && scores->dim_size() == 4 && !v->dim(rank - 2).has_dim_value()) scores->mutable_dim(3)->clear_dim_value();
  });
}

/// Before opset 13 ONNX gives a sliced axis whose extent is a symbol that symbol.
void forget_symbols_of_sliced_axes(onnx::OpSchema& schema) {
  if (!schema.domain().empty() || schema.Name() != "Slice") return;
  schema.TypeAndShapeInferenceFunction([infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& c) {
    infer(c);
    onnx::TensorShapeProto* y = inferred_shape(c, 0);
    if (!y) return;
    std::vector<int64_t> axes;
    const onnx::TensorProto* data = c.getNumInputs() > 3 && c.getInputType(3) ? c.getInputData(3) : nullptr;
    const auto* attribute = c.getAttribute("axes");
    if (data && data->data_type() == onnx::TensorProto::INT64)
      axes = onnx::ParseData<int64_t>(data);
    else if (attribute)
      axes.assign(attribute->ints().begin(), attribute->ints().end());
    else
      for (int a = 0; a < y->dim_size(); ++a) axes.push_back(a);  // those that starts lists, or any
    for (const int64_t axis : axes) {
      const int64_t a = axis < 0 ? axis + y->dim_size() : axis;
      if (a >= 0 && a < y->dim_size()) y->mutable_dim(static_cast<int>(a))->clear_dim_param();
    }
  });
}

/// Whether input i may hold a part of a shape: a scalar or a short vector, as far as its type says. ONNX flattens matrices.
bool may_be_shape(const onnx::DataPropagationContext& c, size_t i) {
  const onnx::TypeProto* type = c.getInputType(i);
  if (!type || !type->has_tensor_type() || !type->tensor_type().has_shape()) return true;
  return type->tensor_type().shape().dim_size() <= 1 && vector_length(c, i) <= longest;
}

/// ONNX tracks the values of tensors of any type, rank and length, in 56 bytes an element, and throws where it meets what no shape
/// holds: a constant in another file, vectors that broadcast. What cannot be followed is not known; that is no fault of a model.
void follow_shapes_only(onnx::OpSchema& schema) {
  if (!schema.has_data_propagation_function()) return;
  schema.PartialDataPropagationFunction([follow = schema.GetDataPropagationFunction()](onnx::DataPropagationContext& c) {
    for (size_t i = 0; i < c.getNumInputs(); ++i)
      if (!may_be_shape(c, i)) return;
    try {
      follow(c);
    } catch (const onnx::InferenceError&) {
    }
  });
}

/// ONNX copies the types of all values around a node for each of its bodies: quadratic in the Ifs of a graph. They get those that
/// they read.
void lend_what_bodies_read(onnx::OpSchema& schema) {
  const auto& attributes = schema.attributes();
  if (std::none_of(attributes.begin(), attributes.end(),
                   [](const auto& a) { return a.second.type == onnx::AttributeProto::GRAPH; }))
    return;
  schema.TypeAndShapeInferenceFunction([infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& c) {
    auto* context = dynamic_cast<onnx::shape_inference::InferenceContextImpl*>(&c);
    auto* around = context ? context->graphInferenceContext_ : nullptr;
    if (!around) return infer(c);
    using Types = onnx::shape_inference::GraphInferenceContext::OuterScopeValueTypesMap;
    const Types& all = *around->outer_scope_value_types_by_name;
    Types read;
    for (const auto& [attribute, body] : context->graphProtoAttributesByName_)
      for (const std::string& name : free_names(*body))
        if (const auto at = all.find(name); at != all.end()) read.insert(*at);
    struct Lent {
      const Types*& place;
      const Types* before;
      ~Lent() { place = before; }
    } lent{around->outer_scope_value_types_by_name, &all};
    lent.place = &read;
    infer(c);
  });
}

class GuardedSchemas final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& op, int version, const std::string& domain) const override {
    const auto* schema = find_schema(op, version, domain);
    if (!schema) return nullptr;
    const std::lock_guard lock(mutex_);
    auto& guarded = guarded_[schema];
    if (!guarded) {
      guarded = std::make_unique<onnx::OpSchema>(*schema);
      refuse_missing_type(*guarded);
      refuse_long_lists(*guarded);
      refuse_odd_equations(*guarded);
      forget_extents_of_unknown_values(*guarded);
      forget_symbols_of_sliced_axes(*guarded);
      follow_shapes_only(*guarded);
      lend_what_bodies_read(*guarded);
    }
    return guarded.get();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<const onnx::OpSchema*, std::unique_ptr<onnx::OpSchema>> guarded_;
};

}  // namespace

const onnx::ISchemaRegistry& guarded_schemas() {
  static const GuardedSchemas schemas;
  return schemas;
}

}  // namespace smelt::importer
