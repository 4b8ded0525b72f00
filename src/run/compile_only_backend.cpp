#include "run/compile_only_backend.h"

#include "base/error.h"

namespace smelt::run {
namespace {

class NoEvent final : public StreamEvent {
 public:
  void record(void*) override {}
  void wait(void*) override {}
};

class CompileOnlyBackend final : public Backend {
 public:
  explicit CompileOnlyBackend(std::string arch) : arch_(std::move(arch)) {}

  bool is_host() const override { return false; }
  int64_t block_alignment() const override { return 256; }
  int64_t caller_alignment() const override { return 16; }

  Tensor allocate(DType, const Shape&, std::string_view) override { refuse(); }
  Tensor allocate_host(DType, const Shape&) override { refuse(); }
  bool reaches(const void*) const override { return false; }
  const void* constant(const Tensor&) override { refuse(); }
  int64_t constant_bytes() const override { return 0; }

  std::shared_ptr<void> stream() override { return nullptr; }
  void copy(void*, const void*, int64_t, void*) override { refuse(); }
  void concatenate(void*, const plan::ConcatCopy&, std::span<const void* const>, void*) override { refuse(); }
  void wait(void*) override {}
  std::unique_ptr<StreamEvent> event() override { return std::make_unique<NoEvent>(); }
  void wait_for_all() override {}

  std::unique_ptr<Recording> record(const std::function<void(void*)>&, bool) override { refuse(); }
  size_t recorded_so_far(void*) const override { return 0; }
  std::unique_ptr<Timestamps> timestamps() override { refuse(); }
  std::unique_ptr<Trace> trace() override { return nullptr; }

 private:
  [[noreturn]] void refuse() const {
    throw Error(fmt::format("the plan was made for {}, a GPU that is not here", arch_),
                "Write it with smelt optimize, and run it where that GPU is: --device gpu", ExitCode::usage);
  }

  std::string arch_;
};

}  // namespace

std::shared_ptr<Backend> compile_only_backend(std::string arch) { return std::make_shared<CompileOnlyBackend>(std::move(arch)); }

}  // namespace smelt::run
