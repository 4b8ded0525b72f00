// TensorProto → Tensor, and setting big tensors aside.
#pragma once

#include "base/file.h"
#include "import/proto.h"

namespace smelt::importer {

/// The data files beside a model, each mapped once.
class ExternalData {
 public:
  /// Locations may name files in `folder` or below it, and no others.
  ExternalData(std::filesystem::path folder, bool missing_reads_as_zero)
      : folder_(std::move(folder)), missing_reads_as_zero_(missing_reads_as_zero) {}
  /// A view of the bytes that the proto points at. Fails for a location that is absolute or leaves the folder (also through a
  /// link), for a missing file, and for an offset or length that the file or the tensor's type and shape do not allow.
  Tensor view(const onnx::TensorProto& proto, DType type, const Shape& shape);
  /// Throws Error where a data file that was opened ends in other bytes than a plan says (lines of "BYTES NAME",
  /// import/export.h).
  void check_seals(const std::string& sealed) const;
  /// Throws Error where a data file has been written to since it was opened.
  void check_unchanged() const;
  /// Where the bytes of the views given so far lie.
  std::vector<DataRange> take_ranges() { return std::move(ranges_); }

 private:
  std::shared_ptr<MappedFile> open(const std::string& location, const std::string& tensor);
  std::filesystem::path folder_;
  bool missing_reads_as_zero_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;  // null: missing, and that is allowed
  std::vector<DataRange> ranges_;
};

/// Type and shape of a proto: dims not negative, the size in bytes below 2^63. `what` names it in errors.
std::pair<DType, Shape> header_of(const onnx::TensorProto& proto, const std::string& what);
/// Address space that reads as zeros: a page takes memory once it is read. Messages call it `tensor`.
Tensor zeros_without_memory(DType type, const Shape& shape, const std::string& tensor);
/// The tensor that a proto holds itself. It takes the bytes of raw_data without a copy.
Tensor take_tensor(onnx::TensorProto& proto);
/// A copy of a proto's tensor; a tensor that was set aside comes from `model`.
Tensor read_tensor(const onnx::TensorProto& proto, const Loaded& model);
/// Writes a small tensor (not strings) into a proto's raw_data.
void write_tensor(const Tensor& t, onnx::TensorProto& proto);

/// A proto for a tensor (not of strings) of the model, set aside above inline_bytes.
onnx::TensorProto keep_tensor(Tensor t, Loaded& model);

/// Sets aside every tensor above inline_bytes of the model's graphs and functions, and makes sparse tensors dense.
void take_out_tensors(Loaded& model, ExternalData& external);

}  // namespace smelt::importer
