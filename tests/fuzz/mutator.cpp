#include "fuzz/mutator.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "import/microsoft.h"
#include "import/schema.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace smelt::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const FieldDescriptor* field(const Message& m, const char* name) { return m.GetDescriptor()->FindFieldByName(name); }

std::string text(const Message& m, const char* name) { return m.GetReflection()->GetString(m, field(m, name)); }
void set_text(Message& m, const char* name, const std::string& to) { m.GetReflection()->SetString(&m, field(m, name), to); }

/// The messages in a repeated field.
std::vector<Message*> all(Message& m, const char* name) {
  std::vector<Message*> out;
  const auto* f = field(m, name);
  for (int i = 0; i < m.GetReflection()->FieldSize(m, f); ++i) out.push_back(m.GetReflection()->MutableRepeatedMessage(&m, f, i));
  return out;
}

std::vector<std::string> texts(const Message& m, const char* name) {
  std::vector<std::string> out;
  const auto* f = field(m, name);
  for (int i = 0; i < m.GetReflection()->FieldSize(m, f); ++i) out.push_back(m.GetReflection()->GetRepeatedString(m, f, i));
  return out;
}

/// Every message nested in m, m itself first.
void collect(Message& m, std::vector<Message*>& out) {
  out.push_back(&m);
  const Reflection* r = m.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(m, &fields);
  for (const auto* f : fields) {
    if (f->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!f->is_repeated()) {
      collect(*r->MutableMessage(&m, f), out);
    } else {
      for (int i = 0; i < r->FieldSize(m, f); ++i) collect(*r->MutableRepeatedMessage(&m, f, i), out);
    }
  }
}

/// The newest schema of each operator, by domain and name.
const std::vector<onnx::OpSchema>& schemas() {
  static const auto list = [] {
    std::vector<onnx::OpSchema> sorted;
    for (auto& s : onnx::OpSchemaRegistry::get_all_schemas())
      if (!s.Deprecated()) sorted.push_back(std::move(s));
    for (const auto& m : smelt::importer::microsoft_operators()) sorted.push_back(*smelt::importer::find_schema(m.op, m.domain));
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return std::pair(a.domain(), a.Name()) < std::pair(b.domain(), b.Name()); });
    return sorted;
  }();
  return list;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : rng_(seed) {}

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }
  template <class T> const T& any(const std::vector<T>& list) { return list[below(list.size())]; }

  void mutate(Message& model) {
    std::vector<Message*> messages;
    collect(model, messages);
    std::vector<Message*> nodes;
    for (Message* m : messages)
      if (m->GetDescriptor()->name() == "NodeProto") nodes.push_back(m);
    if (!nodes.empty() && below(2)) return node(model, *any(nodes));
    Message& m = *any(messages);
    const auto* descriptor = m.GetDescriptor();
    if (descriptor->field_count() == 0) return;
    const auto* f = descriptor->field(static_cast<int>(below(static_cast<size_t>(descriptor->field_count()))));
    if (f->is_repeated())
      repeated(m, f, messages);
    else
      single(m, f, messages);
  }

 private:
  int64_t number() {
    static constexpr int64_t odd[] = {
        0, 1, -1, 2, 3, 7, 12, 16, 255, 1 << 20, int64_t{1} << 31, int64_t{1} << 40, INT64_MAX, INT64_MIN, INT32_MAX, 9};
    return below(3) ? odd[below(std::size(odd))] : static_cast<int64_t>(below(40));
  }

  // --- nodes: what keeps a model likely valid, so that the rewrites get to see it ---------------------------------------

  void node(Message& model, Message& n) {
    switch (below(6)) {
      case 0: return become(n, any(schemas()));
      case 1: return read_another(model, n);
      case 2: return insert_after(model, n);
      case 3: return add_output(model, n);
      case 4: return scale_weight(model);
      default: return set_attribute(n);
    }
  }

  /// Another operator, preferably one that takes as many inputs.
  void become(Message& n, const onnx::OpSchema& first) {
    const onnx::OpSchema* schema = &first;
    const int inputs = n.GetReflection()->FieldSize(n, field(n, "input"));
    for (int tries = 0; tries < 8 && (schema->min_input() > inputs || schema->max_input() < inputs); ++tries)
      schema = &any(schemas());
    set_text(n, "op_type", schema->Name());
    set_text(n, "domain", schema->domain());
  }

  std::vector<std::string> value_names(Message& model) {
    std::vector<std::string> names;
    Message* graph = model.GetReflection()->MutableMessage(&model, field(model, "graph"));
    for (const char* list : {"input", "initializer"})
      for (Message* v : all(*graph, list)) names.push_back(text(*v, "name"));
    for (Message* m : all(*graph, "node"))
      for (const std::string& o : texts(*m, "output")) names.push_back(o);
    return names;
  }

  void read_another(Message& model, Message& n) {
    const auto names = value_names(model);
    const auto* f = field(n, "input");
    const int size = n.GetReflection()->FieldSize(n, f);
    if (names.empty() || size == 0) return;
    n.GetReflection()->SetRepeatedString(&n, f, static_cast<int>(below(static_cast<size_t>(size))), any(names));
  }

  /// A new node of any operator that reads the node's output, and other values; the next reader may read it instead.
  void insert_after(Message& model, Message& n) {
    const auto outputs = texts(n, "output");
    Message* graph = model.GetReflection()->MutableMessage(&model, field(model, "graph"));
    const auto nodes = all(*graph, "node");
    const auto at = std::find(nodes.begin(), nodes.end(), &n);
    if (outputs.empty() || at == nodes.end()) return;
    const auto names = value_names(model);
    const onnx::OpSchema& schema = any(schemas());
    const std::string from = any(outputs), to = from + "_" + std::to_string(below(1000));
    auto* f = field(*graph, "node");
    Message* made = graph->GetReflection()->AddMessage(graph, f);
    become(*made, schema);
    const int inputs = std::clamp(schema.min_input(), 1, 4);
    for (int i = 0; i < inputs; ++i) made->GetReflection()->AddString(made, field(*made, "input"), i ? any(names) : from);
    for (int i = 0; i < std::clamp(schema.min_output(), 1, 4); ++i)
      made->GetReflection()->AddString(made, field(*made, "output"), to + (i ? "." + std::to_string(i) : ""));
    if (!schema.attributes().empty() && below(2)) set_attribute(*made);
    // The order of nodes is topological: behind n, and before what reads it from now on.
    const int last = graph->GetReflection()->FieldSize(*graph, f) - 1;
    for (int i = last; i > at - nodes.begin() + 1; --i) graph->GetReflection()->SwapElements(graph, f, i, i - 1);
    if (below(3) == 0) return;
    for (Message* reader : all(*graph, "node")) {
      if (reader == made) continue;
      const auto inputs_of = texts(*reader, "input");
      for (size_t i = 0; i < inputs_of.size(); ++i)
        if (inputs_of[i] == from)
          return reader->GetReflection()->SetRepeatedString(reader, field(*reader, "input"), static_cast<int>(i), to);
    }
  }

  /// One of the node's outputs is one of the graph's too.
  void add_output(Message& model, Message& n) {
    const auto outputs = texts(n, "output");
    if (outputs.empty()) return;
    Message* graph = model.GetReflection()->MutableMessage(&model, field(model, "graph"));
    set_text(*graph->GetReflection()->AddMessage(graph, field(*graph, "output")), "name", any(outputs));
  }

  /// Another extent of some weight, with the data to go with it.
  void scale_weight(Message& model) {
    Message* graph = model.GetReflection()->MutableMessage(&model, field(model, "graph"));
    const auto weights = all(*graph, "initializer");
    if (weights.empty()) return;
    Message& w = *any(weights);
    const Reflection* r = w.GetReflection();
    const auto *dims = field(w, "dims"), *floats = field(w, "float_data"), *raw = field(w, "raw_data");
    const int rank = r->FieldSize(w, dims);
    std::vector<int64_t> shape;
    for (int i = 0; i < rank; ++i) shape.push_back(r->GetRepeatedInt64(w, dims, i));
    const size_t what = below(3);
    if (what == 0)
      shape.insert(shape.begin() + static_cast<int64_t>(below(shape.size() + 1)), 1);
    else if (what == 1 && !shape.empty())
      std::swap(shape[below(shape.size())], shape.back());
    else if (!shape.empty())
      shape[below(shape.size())] = static_cast<int64_t>(below(9));
    int64_t count = 1;
    for (int64_t d : shape) count = d < 0 || d > 4096 || count > 4096 ? 4097 : count * d;
    if (count > 4096) return;
    r->ClearField(&w, dims);
    for (int64_t d : shape) r->AddInt64(&w, dims, d);
    if (what != 2 || r->FieldSize(w, floats) == 0) return;
    r->ClearField(&w, raw);
    std::vector<float> values;
    for (int i = 0; i < r->FieldSize(w, floats); ++i) values.push_back(r->GetRepeatedFloat(w, floats, i));
    r->ClearField(&w, floats);
    for (int64_t i = 0; i < count; ++i) r->AddFloat(&w, floats, values[static_cast<size_t>(i) % values.size()]);
  }

  /// Gives the node one of the attributes that its operator has, of the right kind, replacing what it had.
  void set_attribute(Message& n) {
    std::string domain = text(n, "domain");
    const auto* schema = onnx::OpSchemaRegistry::Schema(text(n, "op_type"), domain);
    if (!schema || schema->attributes().empty()) return;
    auto wanted = schema->attributes().begin();
    std::advance(wanted, static_cast<int64_t>(below(schema->attributes().size())));
    Message* a = nullptr;
    for (Message* existing : all(n, "attribute"))
      if (text(*existing, "name") == wanted->first) a = existing;
    if (!a) a = n.GetReflection()->AddMessage(&n, field(n, "attribute"));
    if (a->GetReflection()->HasField(*a, field(*a, "g"))) return;  // a body stays
    a->Clear();
    set_text(*a, "name", wanted->first);
    const Reflection* r = a->GetReflection();
    const int kind = static_cast<int>(wanted->second.type);
    r->SetEnumValue(a, field(*a, "type"), kind);
    switch (kind) {
      case onnx::AttributeProto::FLOAT: r->SetFloat(a, field(*a, "f"), static_cast<float>(number()) / 8); break;
      case onnx::AttributeProto::INT: r->SetInt64(a, field(*a, "i"), number()); break;
      case onnx::AttributeProto::STRING: {
        static const std::vector<std::string> words = {
            "",         "NOTSET",        "SAME_UPPER", "SAME_LOWER", "VALID",      "nearest",   "linear",
            "cubic",    "reflect",       "edge",       "wrap",       "constant",   "tanh",      "none",
            "add",      "mul",           "DCR",        "CRD",        "LT",         "LTE",       "sum",
            "bilinear", "bidirectional", "reverse",    "half_pixel", "asymmetric", "ij,jk->ik", "...ij->...ji"};
        r->SetString(a, field(*a, "s"), any(words));
        break;
      }
      case onnx::AttributeProto::INTS:
        for (size_t i = below(6); i > 0; --i)
          r->AddInt64(a, field(*a, "ints"), below(3) ? static_cast<int64_t>(below(4)) : number());
        break;
      case onnx::AttributeProto::FLOATS:
        for (size_t i = below(5); i > 0; --i) r->AddFloat(a, field(*a, "floats"), static_cast<float>(number()) / 8);
        break;
      default: break;
    }
  }

  // --- any field ------------------------------------------------------------------------------------------------------

  /// A string of the model (so that names meet each other), or a changed one.
  std::string some_text(const std::string& old, const std::vector<Message*>& messages) {
    if (below(4)) {
      const Message& from = *any(messages);
      const auto* d = from.GetDescriptor();
      for (int i = 0; i < d->field_count(); ++i) {
        const auto* f = d->field((i + static_cast<int>(below(8))) % d->field_count());
        if (f->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
        if (!f->is_repeated()) return from.GetReflection()->GetString(from, f);
        if (const int n = from.GetReflection()->FieldSize(from, f))
          return from.GetReflection()->GetRepeatedString(from, f, static_cast<int>(below(static_cast<size_t>(n))));
      }
    }
    std::string s = old;
    s.resize(old.size() + 16);
    s.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(s.data()), old.size(), s.size()));
    return s;
  }

  /// A copy of some message of this type in the model; null when there is none. Taken before anything changes: setting one
  /// member of a oneof frees another, and source and target may contain each other.
  std::unique_ptr<Message> another(const google::protobuf::Descriptor* type, const std::vector<Message*>& messages) {
    for (int i = 0; i < 64; ++i) {
      const Message* m = any(messages);
      if (m->GetDescriptor() != type) continue;
      std::unique_ptr<Message> copy(m->New());
      copy->CopyFrom(*m);
      return copy;
    }
    return nullptr;
  }

  void single(Message& m, const FieldDescriptor* f, const std::vector<Message*>& messages) {
    const Reflection* r = m.GetReflection();
    if (below(5) == 0) return r->ClearField(&m, f);
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: return r->SetInt32(&m, f, static_cast<int32_t>(number()));
      case FieldDescriptor::CPPTYPE_INT64: return r->SetInt64(&m, f, number());
      case FieldDescriptor::CPPTYPE_UINT64: return r->SetUInt64(&m, f, static_cast<uint64_t>(number()));
      case FieldDescriptor::CPPTYPE_FLOAT: return r->SetFloat(&m, f, static_cast<float>(number()));
      case FieldDescriptor::CPPTYPE_DOUBLE: return r->SetDouble(&m, f, static_cast<double>(number()));
      case FieldDescriptor::CPPTYPE_ENUM: return r->SetEnumValue(&m, f, static_cast<int>(below(30)));
      case FieldDescriptor::CPPTYPE_STRING: return r->SetString(&m, f, some_text(r->GetString(m, f), messages));
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const auto source = another(f->message_type(), messages);
        Message* target = r->MutableMessage(&m, f);
        if (source) target->CopyFrom(*source);
        return;
      }
      default: return;
    }
  }

  void repeated(Message& m, const FieldDescriptor* f, const std::vector<Message*>& messages) {
    const Reflection* r = m.GetReflection();
    const int n = r->FieldSize(m, f);
    const auto at = [&] { return static_cast<int>(below(static_cast<size_t>(n))); };
    const size_t what = below(4);
    if (n > 0 && what == 0) {
      r->SwapElements(&m, f, at(), n - 1);
      return r->RemoveLast(&m, f);
    }
    if (n > 1 && what == 1) return r->SwapElements(&m, f, at(), at());
    const bool add = n == 0 || what == 2;
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return add ? r->AddInt32(&m, f, static_cast<int32_t>(number()))
                   : r->SetRepeatedInt32(&m, f, at(), static_cast<int32_t>(number()));
      case FieldDescriptor::CPPTYPE_INT64: return add ? r->AddInt64(&m, f, number()) : r->SetRepeatedInt64(&m, f, at(), number());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return add ? r->AddFloat(&m, f, static_cast<float>(number()))
                   : r->SetRepeatedFloat(&m, f, at(), static_cast<float>(number()));
      case FieldDescriptor::CPPTYPE_STRING:
        return add ? r->AddString(&m, f, some_text("", messages)) : r->SetRepeatedString(&m, f, at(), some_text("x", messages));
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const auto source = another(f->message_type(), messages);
        Message* target = add ? r->AddMessage(&m, f) : r->MutableRepeatedMessage(&m, f, at());
        if (source) target->CopyFrom(*source);
        return;
      }
      default: return;
    }
  }

  std::mt19937 rng_;
};

}  // namespace

std::unique_ptr<Message> new_model() {
  static google::protobuf::DescriptorPool pool;
  static google::protobuf::DynamicMessageFactory factory(&pool);
  static const Message* prototype = [] {
    std::ifstream in(ONNX_DESCRIPTORS, std::ios::binary);  // what protoc --descriptor_set_out writes
    google::protobuf::FileDescriptorSet files;
    if (!files.ParseFromIstream(&in) || files.file_size() != 1 || !pool.BuildFile(files.file(0))) {
      fprintf(stderr, "no descriptors of onnx-ml.proto in %s\n", ONNX_DESCRIPTORS);
      abort();
    }
    return factory.GetPrototype(pool.FindMessageTypeByName("onnx.ModelProto"));
  }();
  return std::unique_ptr<Message>(prototype->New());
}

void mutate(Message& model, unsigned seed) {
  Mutator mutator(seed);
  for (size_t left = 1 + mutator.below(4); left > 0; --left) mutator.mutate(model);
}

void graft(Message& model, const Message& other, unsigned seed) {
  Mutator mutator(seed);
  std::unique_ptr<Message> copy(other.New());
  copy->CopyFrom(other);
  Message* to = model.GetReflection()->MutableMessage(&model, field(model, "graph"));
  Message* from = copy->GetReflection()->MutableMessage(copy.get(), field(*copy, "graph"));

  std::vector<std::string> here;
  for (Message* v : all(*to, "input")) here.push_back(text(*v, "name"));
  for (Message* n : all(*to, "node"))
    for (const std::string& o : texts(*n, "output")) here.push_back(o);

  // Names of `other` get a suffix; an input of it may become a value of the model instead.
  std::map<std::string, std::string> renamed = {{"", ""}};
  for (Message* v : all(*from, "input"))
    if (!here.empty() && mutator.below(2)) renamed[text(*v, "name")] = mutator.any(here);
  const std::string suffix = "'" + std::to_string(mutator.below(100));
  const auto rename = [&](const std::string& name) { return renamed.contains(name) ? renamed[name] : name + suffix; };

  std::set<std::string> joined;
  for (const auto& [name, value] : renamed) joined.insert(name);
  for (const char* list : {"input", "initializer", "value_info", "output"}) {
    for (Message* v : all(*from, list)) {
      if (joined.contains(text(*v, "name"))) continue;
      set_text(*v, "name", rename(text(*v, "name")));
      to->GetReflection()->AddMessage(to, field(*to, list))->CopyFrom(*v);
    }
  }
  for (Message* n : all(*from, "node")) {
    for (const char* list : {"input", "output"}) {
      const auto names = texts(*n, list);
      for (size_t i = 0; i < names.size(); ++i)
        n->GetReflection()->SetRepeatedString(n, field(*n, list), static_cast<int>(i), rename(names[i]));
    }
    to->GetReflection()->AddMessage(to, field(*to, "node"))->CopyFrom(*n);
  }
}

}  // namespace smelt::fuzz
