#include <onnx/shape_inference/implementation.h>

#include "base/error.h"
#include "import/schema.h"
#include "import/stages.h"

namespace smelt::importer {

namespace {

onnx::TensorShapeProto* shape_of(onnx::TypeProto& type) {
  return type.has_tensor_type() && type.tensor_type().has_shape() ? type.mutable_tensor_type()->mutable_shape() : nullptr;
}

void substitute(onnx::TypeProto& type, const std::map<std::string, int64_t>& symbols) {
  auto* shape = shape_of(type);
  if (!shape) return;
  for (auto& d : *shape->mutable_dim()) {
    if (!d.has_dim_param()) continue;
    if (auto it = symbols.find(d.dim_param()); it != symbols.end()) d.set_dim_value(it->second);
  }
}

// While ONNX follows values through shape arithmetic it keeps those of all graphs by name. Where two branches of an If name one
// alike it fails: "Data for input 0 already exists". Such a model is inferred without the values.
void infer(onnx::ModelProto& proto, bool lenient) {
  for (const bool values : {true, false}) {
    const onnx::ShapeInferenceOptions options(/*check_type=*/!lenient, /*strict=*/lenient ? 0 : 1, /*data_prop=*/values);
    try {
      onnx::shape_inference::InferShapes(proto, &guarded_schemas(), options);
      return;
    } catch (const std::exception& e) {
      if (!values || std::string_view(e.what()).find("already exists") == std::string_view::npos) throw;
    }
  }
}

// Drops the file's claims about intermediate values and output shapes where ONNX can infer them.
void drop_claims(onnx::ModelProto& proto) {
  const auto imports = [&] {
    std::map<std::string, int64_t> out;
    for (const auto& o : proto.opset_import()) out[o.domain()] = o.version();
    return out;
  }();
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    std::unordered_set<std::string> unknown;
    for (const auto& n : g.node()) {
      const auto v = imports.find(n.domain());
      if (v == imports.end() || !find_schema(n.op_type(), static_cast<int>(v->second), n.domain()))
        unknown.insert(n.output().begin(), n.output().end());
    }
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
    for (auto& v : *g.mutable_value_info())
      if (unknown.contains(v.name())) *kept.Add() = v;
    g.mutable_value_info()->Swap(&kept);
    for (auto& v : *g.mutable_output())
      if (v.type().has_tensor_type() && !unknown.contains(v.name())) v.mutable_type()->mutable_tensor_type()->clear_shape();
  });
}

// The schema of an operator without an inference function (most of ai.onnx.ml) still says an output's type: the only one that is
// allowed, or that of the inputs which share its type variable. True if a type was added that inference can use.
bool add_declared_types(onnx::ModelProto& proto) {
  std::map<std::string, int64_t> imports;
  for (const auto& o : proto.opset_import()) imports[o.domain() == "ai.onnx" ? "" : o.domain()] = o.version();
  bool added = false;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    std::unordered_map<std::string_view, int32_t> known;  // element types of tensors; 0: known to be no tensor
    const auto learn = [&](const auto& values) {
      for (const auto& v : values)
        if (v.has_type()) known[v.name()] = v.type().has_tensor_type() ? v.type().tensor_type().elem_type() : 0;
    };
    learn(g.input()), learn(g.output()), learn(g.value_info());
    for (const auto& t : g.initializer()) known[t.name()] = t.data_type();
    for (const auto& n : g.node()) {
      const auto version = imports.find(n.domain());
      const auto* schema =
          version == imports.end() ? nullptr : find_schema(n.op_type(), static_cast<int>(version->second), n.domain());
      if (!schema) continue;
      for (int i = 0; i < n.output_size(); ++i) {
        const auto* out = formal(schema->outputs(), i);
        if (!out || n.output(i).empty() || known.contains(n.output(i))) continue;
        int32_t type = 0;
        if (out->GetTypes().size() == 1) {
          const auto& only = onnx::Utils::DataTypeUtils::ToTypeProto(*out->GetTypes().begin());
          if (only.has_tensor_type()) type = only.tensor_type().elem_type();
        }
        for (int k = 0; type == 0 && k < n.input_size(); ++k) {
          const auto* in = formal(schema->inputs(), k);
          if (in && in->GetTypeStr() == out->GetTypeStr() && known.contains(n.input(k))) type = known.at(n.input(k));
        }
        if (type == 0) continue;
        auto& v = *g.add_value_info();
        v.set_name(n.output(i));
        v.mutable_type()->mutable_tensor_type()->set_elem_type(type);
        known[n.output(i)] = type;
        added = true;
      }
    }
  });
  return added;
}

/// Without an inference function ONNX infers through the operator's body, which refers to attributes that a node may leave at
/// their defaults.
void spell_out_defaults(onnx::ModelProto& proto) {
  const int opset = static_cast<int>(opset_of(proto));
  for_each_node(proto, [&](onnx::NodeProto& n) {
    const auto* schema = n.domain().empty() ? find_schema(n.op_type(), opset, "") : nullptr;
    if (!schema || !schema->HasFunction() || schema->has_type_and_shape_inference_function()) return;
    add_defaults(n, *schema);
  });
}

/// Whether an extent has neither a number nor a symbol other than one that ONNX's inference made up.
bool is_open(const onnx::TensorShapeProto_Dimension& d) {
  return !d.has_dim_value() && (d.dim_param().empty() || d.dim_param().rfind("unk__", 0) == 0);
}

/// What a graph says of its values.
struct Claims {
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> values, outputs;
};

/// Of each graph, outermost first. Copies of the whole model would take as long as its inference does.
std::vector<Claims> claims_of(onnx::ModelProto& proto) {
  std::vector<Claims> claims;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) { claims.push_back({g.value_info(), g.output()}); });
  return claims;
}

void set_claims(onnx::ModelProto& proto, const std::vector<Claims>& claims) {
  size_t next = 0;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    *g.mutable_value_info() = claims[next].values;
    *g.mutable_output() = claims[next++].outputs;
  });
}

/// Takes from the file's claims what inference did not find: a type, a rank, an extent. True if it took something; without `apply`, if
/// it would.
bool take_claims(onnx::GraphProto& g, const Claims& claimed, bool apply) {
  bool taken = false;
  const auto fill = [&](onnx::ValueInfoProto& v, const onnx::ValueInfoProto& claim) {
    if (!claim.has_type() || (taken && !apply)) return;
    if (!v.has_type() || v.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) {
      taken = true;
      if (!apply) return;
      *v.mutable_type() = claim.type();
    }
    if (!v.type().has_tensor_type() || !claim.type().has_tensor_type()) return;
    auto& to = *v.mutable_type()->mutable_tensor_type();
    const auto& from = claim.type().tensor_type();
    if (!from.has_shape() || (to.elem_type() != 0 && from.elem_type() != 0 && to.elem_type() != from.elem_type())) return;
    if (!to.has_shape()) {
      taken = true;
      if (!apply) return;
      *to.mutable_shape() = from.shape();
    }
    if (to.shape().dim_size() != from.shape().dim_size()) return;
    for (int i = 0; i < to.shape().dim_size(); ++i) {
      const auto& dim = from.shape().dim(i);
      auto& open = *to.mutable_shape()->mutable_dim(i);
      if (!is_open(open) || is_open(dim)) continue;
      taken = true;
      if (apply) open = dim;
    }
  };
  std::unordered_map<std::string_view, onnx::ValueInfoProto*> inferred;
  if (!claimed.values.empty())
    for (auto& v : *g.mutable_value_info()) inferred[v.name()] = &v;
  std::vector<const onnx::ValueInfoProto*> missing;
  for (const auto& claim : claimed.values) {
    const auto it = inferred.find(claim.name());
    if (it != inferred.end())
      fill(*it->second, claim);
    else
      missing.push_back(&claim);
  }
  if (apply)
    for (const auto* claim : missing) *g.add_value_info() = *claim;
  for (int i = 0; i < g.output_size(); ++i) fill(*g.mutable_output(i), claimed.outputs[i]);
  return taken || !missing.empty();
}

void infer_all(onnx::ModelProto& proto, bool lenient) {
  spell_out_defaults(proto);
  infer(proto, lenient);
  if (add_declared_types(proto)) infer(proto, lenient);
}

}  // namespace

void bind_shapes(Loaded& model, const std::map<std::string, Shape>& shapes) {
  if (shapes.empty()) return;
  auto& graph = *model.proto.mutable_graph();
  std::map<std::string, int64_t> symbols;
  for (const auto& [name, shape] : shapes) {
    onnx::ValueInfoProto* input = nullptr;
    std::string known;
    for (auto& v : *graph.mutable_input()) {
      if (v.name() == name) input = &v;
      known += (known.empty() ? "" : ", ") + v.name();
    }
    if (!input) fail_usage("--shapes names an input '{}', expected one of: {}", name, known);
    if (!input->type().has_tensor_type())
      fail_usage("--shapes: input '{}' is {}, expected a tensor", name, describe(input->type()));
    auto& tensor = *input->mutable_type()->mutable_tensor_type();
    if (!tensor.has_shape())
      for (size_t i = 0; i < shape.size(); ++i) tensor.mutable_shape()->add_dim();
    auto& dims = *tensor.mutable_shape();
    bool fits = dims.dim_size() == static_cast<int>(shape.size());
    for (int i = 0; fits && i < dims.dim_size(); ++i) {
      auto& d = *dims.mutable_dim(i);
      const int64_t extent = shape[static_cast<size_t>(i)];
      fits = extent >= 0 && (!d.has_dim_value() || d.dim_value() == extent);
      if (!fits) break;
      if (d.has_dim_param() && !d.dim_param().empty()) {
        const auto [it, fresh] = symbols.insert({d.dim_param(), extent});
        if (!fresh && it->second != extent)
          fail_usage("--shapes binds the symbol '{}' to {} and to {}", d.dim_param(), it->second, extent);
      }
      d.set_dim_value(extent);
    }
    if (!fits) fail_usage("--shapes={}:{}: the model's input is {}", name, to_text(shape), describe(input->type()));
  }
  for_each_graph(graph, [&](onnx::GraphProto& g) {
    for (auto& v : *g.mutable_input()) substitute(*v.mutable_type(), symbols);
    for (auto& v : *g.mutable_output()) substitute(*v.mutable_type(), symbols);
    for (auto& v : *g.mutable_value_info()) substitute(*v.mutable_type(), symbols);
  });
}

// The file's claims about its values may be stale: written for another batch, or left behind by a tool that edited the graph. The
// model itself decides; the claims are used only for what inference does not find.
void infer_shapes(Loaded& model, bool lenient) {
  const std::vector<Claims> claimed = claims_of(model.proto);
  drop_claims(model.proto);
  try {
    infer_all(model.proto, lenient);
  } catch (const std::exception& e) {
    throw Error("types and shapes do not fit: " + one_line(e.what()));
  }
  const auto take = [&](bool apply) {
    bool taken = false;
    size_t next = 0;
    for_each_graph(*model.proto.mutable_graph(), [&](onnx::GraphProto& g) { taken |= take_claims(g, claimed[next++], apply); });
    return taken;
  };
  if (!take(false)) return;
  const std::vector<Claims> inferred = claims_of(model.proto);
  take(true);
  try {
    infer_all(model.proto, lenient);
  } catch (const std::exception&) {
    set_claims(model.proto, inferred);
  }
}

}  // namespace smelt::importer
