// What converters of classical models (skl2onnx, onnxmltools) write around the numbers, in terms of tensors:
//
//   ZipMap(scores)                        scores: a map a row becomes a row, its keys the columns' names
//   Classifier(x), labels that are text   Classifier(x), labels 0, 1, …; LabelEncoder to the text
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "import/node_writer.h"

namespace smelt::importer {
namespace {

constexpr const char* domain = "ai.onnx.ml";

bool is_zip_map(const onnx::NodeProto& n) {
  return n.domain() == domain && n.op_type() == "ZipMap" && n.input_size() == 1 && n.output_size() == 1;
}

/// The attribute with integer labels of a classifier; null for other operators.
const char* integer_labels(const onnx::NodeProto& n) {
  if (n.domain() != domain) return nullptr;
  if (n.op_type() == "TreeEnsembleClassifier") return "classlabels_int64s";
  return n.op_type() == "LinearClassifier" || n.op_type() == "SVMClassifier" ? "classlabels_ints" : nullptr;
}

onnx::AttributeProto& add(onnx::NodeProto& n, const char* name, onnx::AttributeProto::AttributeType type) {
  auto& a = *n.add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}

/// "setosa, versicolor, virginica", of a ZipMap's labels.
std::string keys_of(const onnx::NodeProto& n) {
  std::string text;
  const auto* strings = find_attribute(n, "classlabels_strings");
  const auto* integers = find_attribute(n, "classlabels_int64s");
  constexpr size_t most = 60;
  const auto put = [&](const std::string& s) {
    if (text.size() < most) text += (text.empty() ? "" : ", ") + s;
    if (text.size() >= most && !text.ends_with("…")) text += "…";
  };
  if (strings)
    for (const auto& s : strings->strings()) put(s);
  else if (integers)
    for (const int64_t i : integers->ints()) put(std::to_string(i));
  return one_line(text);
}

class Plain {
 public:
  explicit Plain(Loaded& model) : model_(model), writer_(model.proto) {
    for (const auto& o : model.proto.opset_import())
      if (o.domain() == domain) version_ = o.version();
  }

  void run() {
    for_each_graph(*model_.proto.mutable_graph(), [&](onnx::GraphProto& g) {
      if (std::ranges::any_of(g.node(), [&](const auto& n) { return is_zip_map(n) || is_text_classifier(n); })) graph(g);
    });
  }

 private:
  static bool is_text_classifier(const onnx::NodeProto& n) {
    const auto* a = integer_labels(n) ? find_attribute(n, "classlabels_strings") : nullptr;
    return a && a->strings_size() > 0;
  }

  void graph(onnx::GraphProto& g) {
    std::set<std::string> read;
    for (const auto& n : g.node()) read.insert(n.input().begin(), n.input().end());
    NodesBeside given(g), kept(g);
    auto &in = *given, &out = *kept;
    in.Swap(g.mutable_node());
    writer_.write_to(g, out);
    for (auto& n : in) {
      // What reads maps cannot run anyway.
      if (is_zip_map(n) && !read.contains(n.output(0)))
        unzip(g, n);
      else if (is_text_classifier(n))
        classify(n);
      else
        writer_.add(std::move(n));
    }
    out.Swap(g.mutable_node());
  }

  void unzip(onnx::GraphProto& g, const onnx::NodeProto& n) {
    warn("{}: {} would make a map of each row; output '{}' is the tensor itself, its columns are {}", model_.where, describe(n),
         n.output(0), keys_of(n));
    writer_.emit(n, "Identity", {n.input(0)}, {n.output(0)});
    for (auto* values : {g.mutable_output(), g.mutable_value_info()})
      for (auto& v : *values)
        if (v.name() == n.output(0)) v.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }

  void classify(onnx::NodeProto n) {
    const onnx::AttributeProto text = *find_attribute(n, "classlabels_strings");
    const char* name = integer_labels(n);
    auto& attributes = *n.mutable_attribute();
    for (int i = attributes.size() - 1; i >= 0; --i)
      if (attributes[i].name() == text.name() || attributes[i].name() == name) attributes.DeleteSubrange(i, 1);
    const int count = text.strings_size();
    auto& numbers = add(n, name, onnx::AttributeProto::INTS);
    for (int i = 0; i < count; ++i) numbers.add_ints(i);
    const std::string labels = n.output_size() > 0 ? n.output(0) : "";
    const onnx::NodeProto of = n;
    if (labels.empty()) return writer_.add(std::move(n));
    const std::string number = writer_.fresh(labels + "/number");
    n.set_output(0, number);
    writer_.add(std::move(n));
    onnx::NodeProto& encoder = writer_.emit(of, "LabelEncoder", {number}, {labels}, "/labels");
    encoder.set_domain(domain);
    if (version_ >= 2) {
      auto& keys = add(encoder, "keys_int64s", onnx::AttributeProto::INTS);
      for (int i = 0; i < count; ++i) keys.add_ints(i);
    }
    auto& values = add(encoder, version_ >= 2 ? "values_strings" : "classes_strings", onnx::AttributeProto::STRINGS);
    *values.mutable_strings() = text.strings();
  }

  Loaded& model_;
  NodeWriter writer_;
  int64_t version_ = 1;
};

}  // namespace

void make_plain(Loaded& model) {
  bool any = false;
  for_each_node(model.proto, [&](onnx::NodeProto& n) { any |= n.domain() == domain; });
  if (any) Plain(model).run();
}

}  // namespace smelt::importer
