#include "import/export.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <limits>
#include <span>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "import/stages.h"
#include "import/tensors.h"
#include "import/to_proto.h"

namespace smelt {

namespace fs = std::filesystem;

namespace importer {

namespace {

constexpr int64_t inline_limit = 1024;  // bytes; larger constants go into a data file

// Decides where a constant's bytes go: into the message, as a reference into the model's data file, or into the plan's own.
class Placement {
 public:
  Placement(const Graph& g, bool may_refer, std::string own_name) : may_refer_(may_refer), own_name_(std::move(own_name)) {
    for (const DataRange& r : g.model.data) ranges_[static_cast<const uint8_t*>(r.bytes.get())] = &r;
  }

  void store(const Tensor& t, onnx::TensorProto& proto) {
    if (t.type() == DType::string || t.nbytes() <= inline_limit) return write_tensor(t, proto);
    proto.set_data_type(static_cast<int32_t>(t.type()));
    for (int64_t d : t.shape()) proto.add_dims(d);
    if (const DataRange* r = range_of(t); r && may_refer_) {
      const auto* first = static_cast<const uint8_t*>(r->bytes.get());
      referred_.insert(r->file);
      return refer(proto, r->file, r->offset + (static_cast<const uint8_t*>(t.raw()) - first), t.nbytes());
    } else if (r) {
      foreign_ += t.nbytes();
      foreign_file_ = r->file;
    }
    const auto [it, fresh] = offsets_.insert({{t.raw(), t.nbytes()}, 0});
    if (fresh) it->second = append(t);
    refer(proto, own_name_, it->second, t.nbytes());
  }

  /// Adds the forms of constants that the plan's own file has. The result: what the metadata says of them; nothing without any.
  std::string store(std::span<const WeightForm> forms) {
    std::vector<std::pair<int64_t, const WeightForm*>> own;
    for (const WeightForm& f : forms)
      if (const auto at = offsets_.find({f.weight.raw(), f.weight.nbytes()}); at != offsets_.end())
        own.push_back({at->second, &f});
    std::ranges::sort(own, {}, [](const auto& f) { return std::tie(f.first, f.second->name); });  // given by address
    const int64_t most = max_form_bytes * size_;
    std::string lines;
    for (const auto& [weight, f] : own) {
      if (form_bytes_ + f->form.nbytes() > most) continue;
      form_bytes_ += f->form.nbytes();
      const int64_t offset = append(f->form);
      lines += fmt::format("{} {} {} {}\n", offset, f->form.nbytes(), weight, f->name);
    }
    return lines.empty() ? "" : own_name_ + "\n" + lines;
  }

  bool refers_to(const std::string& file) const { return referred_.contains(file); }
  int64_t foreign() const { return foreign_; }  // bytes of the model's data file that were not referred to
  const std::string& foreign_file() const { return foreign_file_; }
  int64_t size() const { return size_; }
  int64_t form_bytes() const { return form_bytes_; }

  void write(AtomicFile& file) const {
    static constexpr char zeros[4096] = {};
    int64_t at = 0;
    for (const auto& [offset, t] : pieces_) {
      file.write(zeros, offset - at);
      file.write(t.raw(), t.nbytes());
      at = offset + t.nbytes();
    }
    file.write(seal());
  }

  /// The last bytes of the data file. The plan has them too: a file of another plan that came to lie under its name is noticed.
  std::string seal() const {
    uint64_t hash = static_cast<uint64_t>(size_);
    for (const auto& [offset, t] : pieces_) hash = hash_words(t.raw(), t.nbytes(), hash ^ static_cast<uint64_t>(offset));
    return fmt::format("{}{:016x}", data_seal, hash);
  }

 private:
  /// The offset that the tensor's bytes get at the file's end.
  int64_t append(const Tensor& t) {
    // Aligned to a page if a runtime may map it by itself, else to a cache line.
    const int64_t align = t.nbytes() >= 65536 ? 4096 : form_alignment;
    const int64_t offset = (size_ + align - 1) / align * align;
    size_ = offset + t.nbytes();
    pieces_.push_back({offset, t});
    return offset;
  }

  const DataRange* range_of(const Tensor& t) const {
    const auto* p = static_cast<const uint8_t*>(t.raw());
    auto it = ranges_.upper_bound(p);
    if (it == ranges_.begin()) return nullptr;
    const DataRange* r = (--it)->second;
    return p + t.nbytes() <= it->first + r->size ? r : nullptr;
  }

  static void refer(onnx::TensorProto& proto, const std::string& file, int64_t offset, int64_t length) {
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", file},
                                     {"offset", std::to_string(offset)},
                                     {"length", std::to_string(length)}}) {
      auto* e = proto.add_external_data();
      e->set_key(key);
      e->set_value(value);
    }
  }

  bool may_refer_;
  std::string own_name_;
  std::map<const uint8_t*, const DataRange*> ranges_;
  std::set<std::string> referred_;
  std::map<std::pair<const void*, int64_t>, int64_t> offsets_;
  std::vector<std::pair<int64_t, Tensor>> pieces_;
  int64_t size_ = 0, foreign_ = 0, form_bytes_ = 0;
  std::string foreign_file_;
};

/// The only entry of that key; none for an empty value.
void set_entry(onnx::ModelProto& model, const char* key, const std::string& value) {
  auto& metadata = *model.mutable_metadata_props();
  for (int i = metadata.size(); i-- > 0;)
    if (metadata[i].key() == key) metadata.DeleteSubrange(i, 1);
  if (value.empty()) return;
  auto& entry = *metadata.Add();
  entry.set_key(key);
  entry.set_value(value);
}

/// The plan's bytes, with what says that its graph is as it was written.
std::string serialize(onnx::ModelProto& model) {
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max()))
    fail("the plan has {} bytes without its data file, a protobuf message at most 2 GiB", model.ByteSizeLong());
  const std::string graph = model.graph().SerializeAsString();
  set_entry(model, plan_types_key, hash_of_graph({reinterpret_cast<const uint8_t*>(graph.data()), graph.size()}, model));
  return model.SerializeAsString();
}

/// Which data files the plan was written with: its own, and those of another plan that it refers to.
void set_seals(onnx::ModelProto& model, const Placement& placement, const std::string& own) {
  std::string lines;
  for (const auto& e : model.metadata_props()) {
    if (e.key() != plan_data_key) continue;
    std::istringstream before(e.value());
    for (std::string line; std::getline(before, line);)
      if (placement.refers_to(line.substr(std::min(line.find(' ') + 1, line.size())))) lines += line + "\n";
  }
  if (placement.size() > 0) lines += placement.seal() + " " + own + "\n";
  set_entry(model, plan_data_key, lines);
}

/// Whether two paths are the same file, however each is spelled, also through links.
bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code missing;
  if (fs::equivalent(a, b, missing)) return true;
  return folder_of(a) / a.filename() == folder_of(b) / b.filename();
}

}  // namespace
}  // namespace importer

fs::path folder_of(const fs::path& file) {
  std::error_code ignored;
  const fs::path parent = file.parent_path();
  return fs::weakly_canonical(parent.empty() ? fs::path(".") : parent, ignored);
}

void check_spares_model(const fs::path& plan, const fs::path& model) {
  if (!model.empty() && importer::is_same_file(plan, model))
    fail_usage("{}: the plan would replace the model it is made from", plan.string());
}

void fail_far_weights(const fs::path& plan, int64_t bytes, const std::string& file) {
  throw Error(
      fmt::format("{}: {} bytes of weights lie in '{}' beside the model, and a plan can only point at files of its own folder",
                  plan.string(), bytes, file),
      "Write the plan into the model's folder, or give --copy-weights.", ExitCode::usage);
}

ExportedData export_model(const Graph& g, const fs::path& path, const ExportOptions& options) {
  const google::protobuf::LogSilencer quiet;  // a model's names need not be UTF-8
  const fs::path folder = path.parent_path();
  const bool beside = !g.model.path.empty() && folder_of(path) == folder_of(g.model.path);
  // Neither the plan nor its data may take the place of a file that the plan, or the mapped model, reads.
  std::set<std::string> weights;
  for (const DataRange& r : g.model.data) weights.insert(r.file);
  const auto used = [&](const fs::path& file) {
    return !g.model.path.empty() && std::any_of(weights.begin(), weights.end(), [&](const std::string& w) {
      return importer::is_same_file(file, folder_of(g.model.path) / w);
    });
  };
  check_spares_model(path, g.model.path);
  if (used(path))
    throw Error(path.string() + ": the model's weights lie in this file", "Give the plan another name.", ExitCode::usage);
  std::string own = path.stem().string() + ".data";
  for (int i = 1; used(folder / own); ++i) own = path.stem().string() + "." + std::to_string(i) + ".data";

  importer::Placement placement(g, beside && !options.copy_weights, own);
  auto model = importer::to_proto(g, options, [&](const Tensor& t, onnx::TensorProto& p) { placement.store(t, p); });
  if (placement.foreign() > 0 && !options.copy_weights) fail_far_weights(path, placement.foreign(), placement.foreign_file());
  importer::set_entry(model, plan_forms_key, placement.store(options.forms));  // another plan's are not its own
  importer::set_seals(model, placement, own);
  const std::string bytes = importer::serialize(model);
  AtomicFile file(path);
  file.write(bytes);
  if (placement.size() == 0) {
    file.commit();
    return {};
  }
  AtomicFile data(folder / own);
  placement.write(data);
  AtomicFile::commit_together({&data, &file});
  return {folder / own, placement.size(), placement.form_bytes()};
}

std::string export_bytes(const Graph& g, const ExportOptions& options) {
  const google::protobuf::LogSilencer quiet;
  auto model = importer::to_proto(g, options, [](const Tensor& t, onnx::TensorProto& p) { importer::write_tensor(t, p); });
  return importer::serialize(model);
}

}  // namespace smelt
