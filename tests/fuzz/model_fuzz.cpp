// libFuzzer over import, verify and optimise: any bytes, changed as messages where they are models.
#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <cstdlib>

#include "fuzz/mutator.h"
#include "fuzz/stages.h"
#include "smelt/error.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // strings that are no UTF-8 would be half of the log
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const auto model = smelt::fuzz::new_model();
  if (seed % 16 == 0 || !model->ParseFromArray(data, static_cast<int>(size))) return LLVMFuzzerMutate(data, size, max_size);
  smelt::fuzz::mutate(*model, seed);
  const size_t bytes = model->ByteSizeLong();
  if (bytes > max_size) return LLVMFuzzerMutate(data, size, max_size);
  model->SerializeToArray(data, static_cast<int>(bytes));
  return bytes;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  const auto model = smelt::fuzz::new_model(), other = smelt::fuzz::new_model();
  if (!model->ParseFromArray(a, static_cast<int>(a_size)) || !other->ParseFromArray(b, static_cast<int>(b_size))) return 0;
  smelt::fuzz::graft(*model, *other, seed);
  const size_t bytes = model->ByteSizeLong();
  if (bytes > max_size) return 0;
  model->SerializeToArray(out, static_cast<int>(bytes));
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    smelt::fuzz::optimize_any({data, size});
  } catch (const smelt::Error& e) {  // the process ends, so that libFuzzer keeps the input
    fprintf(stderr, "finding: %s\n", e.what());
    abort();
  }
  return 0;
}
