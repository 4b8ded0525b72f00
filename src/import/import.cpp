#include "import/import.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>
#include <set>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "import/export.h"
#include "import/stages.h"
#include "import/tensors.h"

namespace smelt {
namespace importer {

namespace {

constexpr int most_functions = 10'000;  // ONNX's checker allows no more

/// What is seen of a file's message before it is read.
struct Outline {
  int functions = 0;               // a hundred thousand of them take seconds
  std::span<const uint8_t> graph;  // its bytes; empty where there is not one
};

Outline outline_of(std::span<const uint8_t> bytes) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  const auto tag_of = [](int field) { return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED); };
  const uint32_t function = tag_of(onnx::ModelProto::kFunctionsFieldNumber), graph = tag_of(onnx::ModelProto::kGraphFieldNumber);
  Outline found;
  int graphs = 0;
  while (const uint32_t tag = in.ReadTag()) {
    found.functions += tag == function;
    uint32_t size = 0;
    if (tag == graph) {
      if (!in.ReadVarint32(&size)) break;
      const auto begin = static_cast<size_t>(in.CurrentPosition());
      if (size > bytes.size() - begin || !in.Skip(static_cast<int>(size))) break;
      found.graph = ++graphs == 1 ? bytes.subspan(begin, size) : std::span<const uint8_t>();
    } else if (!WireFormatLite::SkipField(&in, tag)) {
      break;  // no model, which parsing says
    }
  }
  return found;
}

/// The result: what is_as_written() asks for.
Outline parse(std::span<const uint8_t> bytes, onnx::ModelProto& proto) {
  constexpr size_t limit = std::numeric_limits<int>::max();
  if (bytes.size() > limit)
    throw Error(fmt::format("the file has {} bytes, a protobuf message at most {}", bytes.size(), limit),
                "Save the model with external data (onnx.save(..., save_as_external_data=True)).");
  const Outline outline = outline_of(bytes);
  if (outline.functions > most_functions)
    fail_unsupported("the model has {} functions, expected at most {}", outline.functions, most_functions);
  google::protobuf::io::CodedInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  if (bytes.empty() || !proto.ParseFromCodedStream(&in) || !in.ConsumedEntireMessage())
    throw Error(fmt::format("not an ONNX model: its {} bytes do not parse as a ModelProto", bytes.size()),
                "The file may be truncated, or of another format.");
  if (!proto.has_graph()) fail("not an ONNX model: it has no graph");
  return outline;
}

ModelInfo info_of(const onnx::ModelProto& m, const std::string& path) {
  ModelInfo info{path, m.producer_name(), m.producer_version(), m.domain(), m.doc_string(), m.ir_version(), {}, {}, {}};
  for (const auto& o : m.opset_import()) info.opsets[o.domain() == "ai.onnx" ? "" : o.domain()] = o.version();
  for (const auto& e : m.metadata_props()) info.metadata[e.key()] = e.value();
  return info;
}

/// `as_bodies`: a plan's functions whose calls are not read as fused nodes; those join them whose bodies say something else.
Graph run(std::span<const uint8_t> bytes, const std::string& where, const std::filesystem::path& folder, const std::string& path,
          const ImportOptions& options, std::set<std::string>& as_bodies) {
  Loaded model;
  model.where = where;
  const Outline outline = parse(bytes, model.proto);
  ModelInfo info = info_of(model.proto, path);
  const bool as_written = options.shapes.empty() && is_as_written(model.proto, outline.graph);
  const FusedBodies bodies(model.proto, options);
  const bool bound = !options.shapes.empty();
  if (bound && !bodies.empty()) {  // bodies were written of the plan's own shapes
    ImportOptions unbound = options;
    unbound.shapes.clear();
    run(bytes, where, folder, path, unbound, as_bodies);
  }
  ExternalData external(folder, options.structure_only);
  take_out_tensors(model, external);
  canonicalise_domains(model);
  forget_unknown_dimensions(model);
  sort_nodes(model);
  check_operators(model, options);
  if (options.check) check_model(model);
  canonicalise_graph(model);
  const onnx::ModelProto& proto = model.proto;
  inline_functions(
      model,
      [&](const onnx::NodeProto& call) {
        return !as_bodies.contains(fused_function(call)) && is_fused_call(proto, call, options);
      },
      options.max_nodes);
  if (options.supported) make_plain(model);
  bind_shapes(model, options.shapes);
  const bool lenient = options.structure_only;  // inference may want to read a constant whose bytes are missing
  const bool upgrades = needs_upgrade(model.proto);
  const bool typed = as_written && !upgrades && carries_types(model, options);
  if (upgrades) infer_shapes(model, lenient);
  upgrade(model);
  if (!typed) infer_shapes(model, lenient);
  if (options.supported && replace_microsoft_calls(model, options)) infer_shapes(model, lenient);
  constexpr int rounds = 16;  // function bodies call functions; ONNX's own are three deep at most
  // A length that one round makes known decides a split in the next.
  for (int i = 0; i < rounds && resolve_sequences(model); ++i) infer_shapes(model, lenient);
  check_tensors_only(model);  // before ONNX builds bodies: its SequenceMap ends the process where a body's output has no type
  for (int i = 0; expand_functions(model, options); ++i) {
    if (i == rounds) fail_unsupported("ONNX's function bodies are nested more than {} deep", rounds);
    infer_shapes(model, lenient);
  }
  check_tensors_only(model);
  std::set<std::string> differ;
  Graph g = to_graph(model, [&](const Graph& made, NodeId node, const onnx::NodeProto& call) {
    if (bound || bodies.empty() || bodies.agree(made, node, call)) return;
    if (differ.insert(fused_function(call)).second)
      warn("{}: {} is not what its function body in the plan computes; the body runs", where, describe(call));
  });
  if (!differ.empty()) {
    as_bodies.merge(differ);
    return run(bytes, where, folder, path, options, as_bodies);
  }
  if (const auto sealed = info.metadata.find(plan_data_key); sealed != info.metadata.end()) external.check_seals(sealed->second);
  external.check_unchanged();
  if (!typed || !as_bodies.empty()) info.metadata.erase(plan_rewritten_key);
  info.metadata.erase(sequences_key);
  if (!model.sequences.empty()) info.metadata[sequences_key] = print(model.sequences);
  g.model = std::move(info);
  g.model.data = external.take_ranges();
  verify(g);
  return g;
}

// An error inside ONNX or protobuf is the file's fault, and becomes one line.
template <class Read> auto guarded(const std::string& where, Read read) {
  const google::protobuf::LogSilencer quiet;  // names that are not UTF-8 are allowed and need no warning
  try {
    return read();
  } catch (const Error& e) {
    throw e.at(where);
  } catch (const std::bad_alloc&) {
    throw Error(where + ": the model needs more memory than there is");
  } catch (const std::exception& e) {
    throw Error(where + ": " + one_line(e.what()));
  }
}

Graph import_bytes(std::span<const uint8_t> bytes, const std::string& where, const std::filesystem::path& folder,
                   const std::string& path, const ImportOptions& options) {
  return guarded(where, [&] {
    std::set<std::string> as_bodies;
    return run(bytes, where, folder, path, options, as_bodies);
  });
}

std::filesystem::path folder_of(const std::filesystem::path& file) { return file.has_parent_path() ? file.parent_path() : "."; }

}  // namespace
}  // namespace importer

Graph import_model(const std::filesystem::path& path, const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  return importer::import_bytes({file->data(), static_cast<size_t>(file->size())}, path.string(),
                                options.folder.empty() ? importer::folder_of(path) : options.folder, path.string(), options);
}

Graph import_model(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  return importer::import_bytes(bytes, name, options.folder, {}, options);
}

std::vector<DataRange> external_data_of(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return importer::guarded(path.string(), [&] {
    importer::Loaded model;
    model.where = path.string();
    importer::parse({file->data(), static_cast<size_t>(file->size())}, model.proto);
    importer::ExternalData external(importer::folder_of(path), false);
    importer::take_out_tensors(model, external);
    return external.take_ranges();
  });
}

}  // namespace smelt
