#include "device/cpu/onednn_threads.h"

#include <elf.h>
#include <link.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "base/threads.h"

namespace smelt::device {
namespace {

// ---- GCC's OpenMP functions, as its compilers call them (libgomp's manual, "Implementing PARALLEL construct" and following) ----

/// A region as oneDNN's threads see it.
struct Region {
  void (*function)(void*);
  void* data;
  int threads;
  std::atomic<int> waiting{0};        // at its barrier
  std::atomic<uint32_t> barriers{0};  // that are behind it
  alignas(threads::Region) std::array<std::byte, sizeof(threads::Region)> loop;
};

/// Which of a region's threads this one is.
struct Place {
  Region* region = nullptr;  // null: of one thread, or outside
  int thread = 0;
};
thread_local Place place;
// Regions inside a region have one thread, which goes on in their caller's place: those are counted.
thread_local int nested = 0;
thread_local Region started;

threads::Region& loop_of(Region& r) { return *reinterpret_cast<threads::Region*>(r.loop.data()); }

void work(void* data, int64_t piece, int) {
  Region* r = static_cast<Region*>(data);
  place = {.region = r, .thread = static_cast<int>(piece)};
  r->function(r->data);
  place = {};
}

void parallel_start(void (*function)(void*), void* data, unsigned wanted) {
  const int threads = wanted > 0 ? static_cast<int>(wanted) : threads::team_threads();
  if (threads <= 1 || nested > 0 || threads::in_region()) {
    ++nested;
    return;
  }
  Region& r = started;
  r.function = function, r.data = data, r.threads = threads;
  r.waiting = 0;
  place = {.region = &r};
  // The caller runs `function` itself, as thread 0, between parallel_start and parallel_end.
  new (r.loop.data()) threads::Region(work, &r, threads, threads);
  loop_of(r).open(false);
}

void parallel_end() {
  if (nested > 0) {
    --nested;
    return;
  }
  loop_of(started).close();
  std::destroy_at(&loop_of(started));
  place = {};
}

int thread_number() { return nested > 0 ? 0 : place.thread; }
int region_threads() { return nested > 0 || !place.region ? 1 : place.region->threads; }
int in_parallel() { return region_threads() > 1; }
int most_threads() { return threads::team_threads(); }

/// All of the region's threads are there in the end: a helper begins what it joins, and joins the oldest region first.
void barrier() {
  if (region_threads() == 1) return;
  Region& r = *place.region;
  const uint32_t before = r.barriers.load(std::memory_order_acquire);
  if (r.waiting.fetch_add(1, std::memory_order_acq_rel) + 1 == r.threads) {
    r.waiting.store(0, std::memory_order_relaxed);
    r.barriers.fetch_add(1, std::memory_order_release);
    return;
  }
  for (int tries = 0; r.barriers.load(std::memory_order_acquire) == before; ++tries) {
    if (tries > 1000) sched_yield();
    __builtin_ia32_pause();
  }
}

/// The next part of a loop with schedule(static, chunk), from `begin` by `step` up to `end`.
bool loop_next(long* from, long* to);

struct StaticLoop {
  long begin, step, iterations, chunk, next;
};
thread_local StaticLoop static_loop;

bool loop_start(long begin, long end, long step, long chunk, long* from, long* to) {
  const long iterations = step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
  static_loop = {begin, step, std::max(iterations, 0L), chunk, 0};
  return loop_next(from, to);
}

bool loop_next(long* from, long* to) {
  StaticLoop& l = static_loop;
  const long threads = region_threads(), thread = thread_number();
  long first, last;
  if (l.chunk == 0) {  // a part for each thread
    if (l.next++ > 0) return false;
    const long each = l.iterations / threads, more = l.iterations % threads;
    first = each * thread + std::min(thread, more);
    last = first + each + (thread < more);
  } else {
    first = (l.next++ * threads + thread) * l.chunk;
    last = std::min(first + l.chunk, l.iterations);
  }
  if (first >= last) return false;
  *from = l.begin + first * l.step;
  *to = l.begin + last * l.step;
  return true;
}

void loop_end_nowait() {}

// ---- Binding ----

struct Function {
  std::string_view name;
  void* address;
};
template <class F> void* address(F* f) { return reinterpret_cast<void*>(f); }
const Function functions[] = {{"GOMP_parallel_start", address(parallel_start)},
                              {"GOMP_parallel_end", address(parallel_end)},
                              {"GOMP_barrier", address(barrier)},
                              {"GOMP_loop_static_start", address(loop_start)},
                              {"GOMP_loop_static_next", address(loop_next)},
                              {"GOMP_loop_end_nowait", address(loop_end_nowait)},
                              {"omp_get_thread_num", address(thread_number)},
                              {"omp_get_num_threads", address(region_threads)},
                              {"omp_get_max_threads", address(most_threads)},
                              {"omp_in_parallel", address(in_parallel)}};

bool is_openmp(std::string_view name) {
  return name.starts_with("GOMP_") || name.starts_with("omp_") || name.starts_with("__kmpc_");
}

/// A loaded library's tables of addresses, which the loader has filled in.
struct Library {
  ElfW(Addr) base = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * relocations[2] = {};
  size_t bytes[2] = {};
  ElfW(Addr) read_only = 0;  // what is protected once it is filled in
  size_t read_only_bytes = 0;
};

bool read(const dl_phdr_info& info, Library& l) {
  l.base = info.dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& h = info.dlpi_phdr[i];
    if (h.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(l.base + h.p_vaddr);
    if (h.p_type == PT_GNU_RELRO) l.read_only = l.base + h.p_vaddr, l.read_only_bytes = h.p_memsz;
  }
  if (!dynamic) return false;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const ElfW(Addr) at = dynamic->d_un.d_ptr;  // glibc has added the base
    switch (dynamic->d_tag) {
      case DT_SYMTAB: l.symbols = reinterpret_cast<const ElfW(Sym)*>(at); break;
      case DT_STRTAB: l.names = reinterpret_cast<const char*>(at); break;
      case DT_JMPREL: l.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_PLTRELSZ: l.bytes[0] = dynamic->d_un.d_val; break;
      case DT_RELA: l.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_RELASZ: l.bytes[1] = dynamic->d_un.d_val; break;
      default: break;
    }
  }
  return l.symbols && l.names;
}

/// Calls f(name, slot) for every address of an OpenMP function that the library has.
template <class F> void for_each_openmp_slot(const Library& l, const F& f) {
  for (int table = 0; table < 2; ++table) {
    for (size_t i = 0; i < l.bytes[table] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)& r = l.relocations[table][i];
      const auto type = ELF64_R_TYPE(r.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
      const ElfW(Sym)& symbol = l.symbols[ELF64_R_SYM(r.r_info)];
      const std::string_view name = l.names + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF && is_openmp(name)) f(name, reinterpret_cast<void**>(l.base + r.r_offset));
    }
  }
}

const Function* find(std::string_view name) {
  const auto at = std::ranges::find(functions, name, &Function::name);
  return at == std::end(functions) ? nullptr : &*at;
}

/// Writes to an address that may lie in pages that are read-only.
bool write(const Library& l, void** slot, void* value) {
  const auto at = reinterpret_cast<uintptr_t>(slot);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const first = reinterpret_cast<void*>(at & ~(page - 1));
  // The loader protects whole pages, down from the end.
  const bool is_protected = at >= (l.read_only & ~(page - 1)) && at < ((l.read_only + l.read_only_bytes) & ~(page - 1));
  if (is_protected && mprotect(first, page, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  if (is_protected) mprotect(first, page, PROT_READ);
  return true;
}

/// All of the library's OpenMP functions, or none.
bool bind(const Library& l) {
  bool known = true, any = false, done = true;
  for_each_openmp_slot(l, [&](std::string_view name, void**) {
    any = true;
    known = known && find(name);
  });
  if (!any || !known) return false;
  for_each_openmp_slot(l, [&](std::string_view name, void** slot) { done = write(l, slot, find(name)->address) && done; });
  return done;
}

/// Finds the library that holds oneDNN's functions as this one calls them.
int visit(dl_phdr_info* info, size_t, void* bound) {
  const auto at = reinterpret_cast<ElfW(Addr)>(&dnnl_version);
  const bool holds = std::any_of(info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum, [&](const ElfW(Phdr) & h) {
    return h.p_type == PT_LOAD && at >= info->dlpi_addr + h.p_vaddr && at < info->dlpi_addr + h.p_vaddr + h.p_memsz;
  });
  if (!holds) return 0;
  Library l;
  *static_cast<bool*>(bound) = read(*info, l) && bind(l);
  return 1;
}

}  // namespace

bool onednn_uses_team() {
  static const bool bound = [] {
    bool done = false;
    dl_iterate_phdr(visit, &done);
    if (!done) {
      info("oneDNN's library keeps the threads of its OpenMP run time: its functions could not be bound");
      threads::set_follower(omp_set_num_threads);
    }
    return done;
  }();
  return bound;
}

}  // namespace smelt::device
