#include "fuzz/operators/case.h"

#include <onnx/onnx-data.pb.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "import/tensors.h"

namespace smelt::fuzz {
namespace fs = std::filesystem;
namespace {

onnx::TensorProto to_proto(const Tensor& t, const std::string& name) {
  onnx::TensorProto proto;
  importer::write_tensor(t, proto);
  proto.set_name(name);
  return proto;
}

/// What is declared of an input, an extent for each symbol.
Tensor made_up(const onnx::ValueInfoProto& info, std::map<std::string, int64_t>& symbols, Random& random) {
  const auto& type = info.type().tensor_type();
  Shape shape;
  for (const auto& d : type.shape().dim()) {
    if (d.has_dim_value())
      shape.push_back(d.dim_value());
    else
      shape.push_back(symbols.try_emplace(d.dim_param(), 1 + static_cast<int64_t>(random() % 4)).first->second);
  }
  if (elements(shape) > 1 << 14) fail("input '{}' has shape {}, too large to try again and again", info.name(), to_string(shape));
  onnx::TensorProto of_type;
  of_type.set_data_type(type.elem_type());
  return make_tensor(importer::header_of(of_type, info.name()).first, shape, false, random);
}

}  // namespace

std::vector<fs::path> list_models(const fs::path& root) {
  std::vector<fs::path> models;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "model.onnx")
      models.push_back(entry.path().parent_path());
    else if (entry.is_regular_file() && (entry.path().extension() == ".onnx" || entry.path().extension().empty()))
      models.push_back(entry.path());
  }
  std::ranges::sort(models);
  return models;
}

OperatorCase read_case(const fs::path& path, Random& random) {
  OperatorCase c;
  c.name = path.filename().string();
  const bool folder = fs::is_directory(path);
  if (!c.model.ParseFromString(read_text(folder ? path / "model.onnx" : path))) fail("{}: not a model", path.string());
  const fs::path data = folder && fs::exists(path / "data_set_0") ? path / "data_set_0" : path / "test_data_set_0";
  std::set<std::string> initialized;
  for (const auto& t : c.model.graph().initializer()) initialized.insert(t.name());
  std::map<std::string, int64_t> symbols;
  int given = 0;
  for (const auto& info : c.model.graph().input()) {
    if (initialized.contains(info.name())) continue;
    if (!info.type().has_tensor_type()) fail("{}: input '{}' is no tensor", c.name, info.name());
    const fs::path file = data / fmt::format("input_{}.pb", given++);
    onnx::TensorProto proto;
    if (!folder || !fs::exists(file))
      c.feeds.push_back({info.name(), made_up(info, symbols, random)});
    else if (proto.ParseFromString(read_text(file)))
      c.feeds.push_back({info.name(), importer::take_tensor(proto)});
    else
      fail("{}: not a tensor", file.string());
  }
  return c;
}

void write_case(const OperatorCase& c, const std::vector<Tensor>& outputs, const std::vector<SequenceOutput>& sequences,
                const fs::path& folder) {
  const fs::path data = folder / "test_data_set_0";
  fs::remove_all(folder);
  fs::create_directories(data);
  const auto write = [](const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  write(folder / "model.onnx", c.model.SerializeAsString());
  for (size_t i = 0; i < c.feeds.size(); ++i)
    write(data / fmt::format("input_{}.pb", i), to_proto(c.feeds[i].tensor, c.feeds[i].name).SerializeAsString());
  if (outputs.empty()) return;
  int at = 0;
  const auto next = [&](const auto& proto) { write(data / fmt::format("output_{}.pb", at++), proto.SerializeAsString()); };
  auto sequence = sequences.begin();
  for (size_t i = 0; i < outputs.size() || sequence != sequences.end();) {
    const std::string& name = at < c.model.graph().output_size() ? c.model.graph().output(at).name() : "";
    if (sequence == sequences.end() || sequence->first != i) {
      next(to_proto(outputs.at(i++), name));
      continue;
    }
    onnx::SequenceProto items;
    items.set_name(name);
    items.set_elem_type(onnx::SequenceProto::TENSOR);
    const std::vector<Tensor> held(outputs.begin() + static_cast<long>(i),
                                   outputs.begin() + static_cast<long>(i + sequence->count));
    for (const Tensor& t : sequence->stacked ? unstacked(held.at(0)) : held) *items.add_tensor_values() = to_proto(t, "");
    next(items);
    i += sequence++->count;
  }
}

Tensor make_tensor(DType type, const Shape& shape, bool odd, Random& random) {
  const auto count = static_cast<size_t>(elements(shape));
  if (type == DType::string) {
    static constexpr const char* words[] = {"", "1", "a b", "smelt"};
    std::vector<std::string> all(count);
    for (std::string& s : all) s = words[random() % std::size(words)];
    return Tensor::of_strings(shape, std::move(all));
  }
  if (is_float(type)) {
    static const double strange[] = {NAN,          INFINITY, -INFINITY, 1e300, -1e38, 9007199254740992.0,
                                     2147483648.0, -0.0,     1e-310,    65504};
    std::vector<double> all(count);
    for (double& v : all)
      v = odd && random() % 4 == 0 ? strange[random() % std::size(strange)] : static_cast<double>(random() % 4001) / 1000 - 2;
    return Tensor::of<double>(shape, all).cast(type);
  }
  static constexpr int64_t strange[] = {-1,      -2,   INT64_MIN, INT64_MAX, INT64_MAX - 1,    INT32_MAX, INT32_MIN,
                                        1 << 20, -100, 255,       256,       int64_t{1} << 40, 0x7fff,    int64_t{1} << 62};
  std::vector<int64_t> all(count);
  for (int64_t& v : all)
    v = odd && random() % 2 == 0 ? strange[random() % std::size(strange)] : static_cast<int64_t>(random() % 4);
  return Tensor::of<int64_t>(shape, all).cast(type);
}

}  // namespace smelt::fuzz
