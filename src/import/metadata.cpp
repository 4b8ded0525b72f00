#include "import/metadata.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx/onnx_pb.h>

#include <limits>

#include "base/error.h"
#include "base/file.h"

namespace smelt {

std::map<std::string, std::string> metadata_of(const std::filesystem::path& model) {
  using google::protobuf::internal::WireFormatLite;
  const google::protobuf::LogSilencer quiet;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const MappedFile> file;
  try {
    file = MappedFile::open(model);
  } catch (const Error&) {
    return metadata;
  }
  if (file->size() > std::numeric_limits<int>::max()) return metadata;
  google::protobuf::io::CodedInputStream in(file->data(), static_cast<int>(file->size()));
  while (const uint32_t tag = in.ReadTag()) {
    const bool is_entry = WireFormatLite::GetTagFieldNumber(tag) == onnx::ModelProto::kMetadataPropsFieldNumber &&
                          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (!is_entry) {
      if (!WireFormatLite::SkipField(&in, tag)) break;
      continue;
    }
    std::string text;
    uint32_t length = 0;
    onnx::StringStringEntryProto entry;
    if (!in.ReadVarint32(&length) || length > static_cast<uint32_t>(file->size()) ||
        !in.ReadString(&text, static_cast<int>(length)) || !entry.ParseFromString(text))
      break;
    metadata[entry.key()] = entry.value();
  }
  return metadata;
}

}  // namespace smelt
