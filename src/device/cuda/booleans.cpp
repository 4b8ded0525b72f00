#include "device/cuda/booleans.h"

#include <string_view>

namespace smelt::device::cuda {
namespace {

constexpr unsigned threads = 256;

/// at[i] = at[i] != 0, a thread a byte.
constexpr std::string_view program = R"(.version 6.3
.target sm_70
.address_size 64
.visible .entry booleans(.param .u64 at, .param .u64 count)
{
  .reg .pred %outside, %set;
  .reg .b16 %byte, %bit;
  .reg .b32 %block, %threads, %thread;
  .reg .b64 %at, %count, %i, %offset;
  ld.param.u64 %at, [at];
  ld.param.u64 %count, [count];
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %i, %block, %threads;
  cvt.u64.u32 %offset, %thread;
  add.u64 %i, %i, %offset;
  setp.ge.u64 %outside, %i, %count;
  @%outside ret;
  cvta.to.global.u64 %at, %at;
  add.u64 %at, %at, %i;
  ld.global.u8 %byte, [%at];
  setp.ne.u16 %set, %byte, 0;
  selp.u16 %bit, 1, 0, %set;
  st.global.u8 [%at], %bit;
  ret;
}
)";

std::shared_ptr<const Cubin> image() {
  auto made = std::make_shared<Cubin>();
  made->bytes = program;  // the driver reads a text up to the 0 behind it
  made->kernels.push_back({.entry = "booleans"});
  return made;
}

}  // namespace

const Module& Booleans::load() {
  const std::lock_guard lock(mutex_);
  if (!module_) module_.emplace(device_, image(), "booleans");
  return *module_;
}

void Booleans::make_0_or_1(abi::Address at, int64_t count, abi::Stream stream) {
  if (count == 0) return;
  auto number = static_cast<uint64_t>(count);
  void* parameters[] = {&at, &number};
  const int64_t blocks = (count + threads - 1) / threads;
  load().function("booleans").launch({.grid = {blocks}, .block = {threads, 1, 1}}, parameters, stream);
}

}  // namespace smelt::device::cuda
