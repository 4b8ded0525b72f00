// Any bytes: a Graph that the verifier accepts, or an Error. The mutator changes the bytes, or parses them and changes one
// field anywhere in the model, so that most inputs get past the parser.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>

#include <fstream>
#include <memory>
#include <random>

#include "import/import.h"
#include "smelt/error.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// An empty ModelProto with reflection, which ONNX's own generated (lite) classes do not have.
std::unique_ptr<Message> new_model() {
  static google::protobuf::DescriptorPool pool;
  static google::protobuf::DynamicMessageFactory factory(&pool);
  static const Message* prototype = [] {
    std::ifstream in(ONNX_DESCRIPTORS, std::ios::binary);   // what protoc --descriptor_set_out writes
    google::protobuf::FileDescriptorSet files;
    if (!files.ParseFromIstream(&in) || files.file_size() != 1 || !pool.BuildFile(files.file(0))) {
      fprintf(stderr, "no descriptors of onnx-ml.proto in %s\n", ONNX_DESCRIPTORS);
      abort();
    }
    return factory.GetPrototype(pool.FindMessageTypeByName("onnx.ModelProto"));
  }();
  return std::unique_ptr<Message>(prototype->New());
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

class Mutator {
 public:
  explicit Mutator(unsigned seed) : rng_(seed) {}

  void mutate(Message& model) {
    std::vector<Message*> messages;
    collect(model, messages);
    Message& m = *messages[below(messages.size())];
    const auto* descriptor = m.GetDescriptor();
    if (descriptor->field_count() == 0) return;
    const auto* f = descriptor->field(static_cast<int>(below(static_cast<size_t>(descriptor->field_count()))));
    if (f->is_repeated()) {
      repeated(m, f, messages);
    } else {
      single(m, f, messages);
    }
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }

  int64_t number() {
    static constexpr int64_t odd[] = {
        0, 1, -1, 2, 3, 7, 12, 16, 255, 1 << 20, int64_t{1} << 31, int64_t{1} << 40, INT64_MAX, INT64_MIN, INT32_MAX, 9};
    return below(3) ? odd[below(std::size(odd))] : static_cast<int64_t>(below(40));
  }

  /// A string of the model (so that names meet each other), or a changed one.
  std::string text(const std::string& old, const std::vector<Message*>& messages) {
    if (below(4)) {
      const Message& from = *messages[below(messages.size())];
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
      const Message* m = messages[below(messages.size())];
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
      case FieldDescriptor::CPPTYPE_STRING: return r->SetString(&m, f, text(r->GetString(m, f), messages));
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
        return add ? r->AddString(&m, f, text("", messages)) : r->SetRepeatedString(&m, f, at(), text("x", messages));
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

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const auto model = new_model();
  if (seed % 8 == 0 || !model->ParseFromArray(data, static_cast<int>(size))) return LLVMFuzzerMutate(data, size, max_size);
  Mutator mutator(seed);
  for (unsigned i = 0; i <= seed / 8 % 3; ++i) mutator.mutate(*model);
  const size_t bytes = model->ByteSizeLong();
  if (bytes > max_size) return LLVMFuzzerMutate(data, size, max_size);
  model->SerializeToArray(data, static_cast<int>(bytes));
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  smelt::ImportOptions options;
  options.max_nodes = 2000;
  // No data files: half of the inputs are read for their structure, half must say that the files are missing. Half of them
  // have every function expanded.
  options.folder = "/nonexistent";
  options.structure_only = size % 2 == 0;
  if (size % 4 < 2) options.supported = [](std::string_view, std::string_view op) { return op.size() % 3 != 0; };
  try {
    const smelt::Graph g = smelt::import_model({data, size}, "fuzz", options);
    smelt::verify(g);
    smelt::print(g);
  } catch (const smelt::Error&) {
  }
  return 0;
}
