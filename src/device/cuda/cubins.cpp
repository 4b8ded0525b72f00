#include "device/cuda/cubins.h"

#include <sstream>

#include "base/error.h"
#include "kernels/embedded.h"

namespace smelt::device::cuda {
namespace {

constexpr std::string_view kind = "smelt-cubin 2";

std::string to_body(const Cubin& cubin) {
  std::string body = fmt::format("{}\n", cubin.kernels.size());
  for (const KernelResources& k : cubin.kernels)
    body += fmt::format("{} {} {} {} {} {}\n", k.entry, k.registers, k.stack_bytes, k.spill_store_bytes, k.spill_load_bytes,
                        k.static_shared_bytes);
  return body + fmt::format("{}\n{}", cubin.bytes.size(), cubin.bytes);
}

/// Null for what to_body() does not write.
std::shared_ptr<const Cubin> from_body(std::string_view body) {
  std::istringstream in{std::string(body)};
  size_t kernels = 0, size = 0;
  if (!(in >> kernels) || kernels > 1000) return nullptr;
  auto cubin = std::make_shared<Cubin>();
  cubin->kernels.resize(kernels);
  for (KernelResources& k : cubin->kernels)
    if (!(in >> k.entry >> k.registers >> k.stack_bytes >> k.spill_store_bytes >> k.spill_load_bytes >> k.static_shared_bytes))
      return nullptr;
  if (!(in >> size) || in.get() != '\n') return nullptr;
  const auto at = static_cast<size_t>(in.tellg());
  if (body.size() != at + size) return nullptr;
  cubin->bytes = body.substr(at);
  return cubin;
}

}  // namespace

std::string to_file(const Cubin& cubin, std::string_view key) { return sealed(kind, key, to_body(cubin)); }

std::shared_ptr<const Cubin> from_file(std::string_view file, std::string_view key) {
  const auto body = unsealed(kind, key, file);
  return body ? from_body(*body) : nullptr;
}

CubinStore::CubinStore(std::filesystem::path folder, Compile compile)
    : files_(std::move(folder), std::string(kind), ".cubin", "compiled kernels"), compile_(std::move(compile)) {}

std::string CubinStore::key(const Source& source, std::string_view arch, std::string_view compiler) {
  static const std::string headers = [] {
    KeyHash hash;
    for (const kernels::File& f : kernels::files()) {
      hash.add(f.name);
      hash.add(f.text);
    }
    return hash.text();
  }();
  KeyHash hash;
  hash.add(kind);
  hash.add(source.code);
  for (const std::string& o : source.options) hash.add(o);
  hash.add(arch);
  hash.add(compiler);
  hash.add(headers);
  return hash.text();
}

std::shared_ptr<const Cubin> CubinStore::get(const Source& source, std::string_view arch) {
  const std::string id = key(source, arch);
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return !making_.contains(id); });
  if (const auto at = known_.find(id); at != known_.end()) {
    ++stats_.from_memory;
    return at->second;
  }
  making_.insert(id);
  lock.unlock();
  std::shared_ptr<const Cubin> cubin;
  std::exception_ptr failure;
  try {
    cubin = make(source, arch);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  making_.erase(id);
  if (cubin) known_.try_emplace(id, cubin);
  lock.unlock();
  made_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return cubin;
}

std::shared_ptr<const Cubin> CubinStore::make(const Source& source, std::string_view arch) {
  // On disk, what another compiler made is another kernel.
  const bool on_disk = files_.any() && compiler_missing().empty();
  const std::string id = on_disk ? key(source, arch, compiler_version()) : "";
  const auto body = on_disk ? files_.read(id) : std::nullopt;
  auto cubin = body ? from_body(*body) : nullptr;
  const bool found = cubin != nullptr;
  if (!found) {
    try {
      cubin = std::make_shared<Cubin>(compile_(source, arch));
    } catch (const CompilerMissing& e) {
      if (!carries_) throw;
      throw CompilerMissing(
          fmt::format("the plan does not carry the kernel of {}, or not undamaged, and {}", source.name, e.what()),
          "Write the plan again with this smelt (smelt optimize --embed-kernels), or install NVRTC.", ExitCode::unsupported);
    }
    if (on_disk) files_.write(id, to_body(*cubin));
  }
  std::lock_guard lock(mutex_);
  ++(found ? stats_.from_disk : stats_.compiled);
  stats_.seconds += cubin->seconds;
  return cubin;
}

void CubinStore::carry(const Cubins& cubins) {
  std::lock_guard lock(mutex_);
  known_.insert(cubins.begin(), cubins.end());
  carries_ = true;
}

Cubins CubinStore::in_memory() const {
  std::lock_guard lock(mutex_);
  return known_;
}

CubinStats CubinStore::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace smelt::device::cuda
