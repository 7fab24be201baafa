// The C++ interface of NVTX, and handles that cross from one instance of NVTX to another.
#include <cstdio>
#include <nvtx3/nvtx3.hpp>
#include <thread>

extern "C" void library_work(nvtxStringHandle_t registered);

namespace {

struct Engine {
  static constexpr char const* name{"engine"};
};
struct Hot {
  static constexpr char const* name{"hot"};
  static constexpr std::uint32_t id{4};
};
struct Tick {
  static constexpr char const* message{"tick"};
};

void step() { NVTX3_FUNC_RANGE_IN(Engine); }

}  // namespace

int main() {
  {
    nvtx3::scoped_range outer{"outer", nvtx3::rgb{1, 2, 3}, nvtx3::payload{std::int32_t{-4}}};
    nvtx3::scoped_range_in<Engine> inner{nvtx3::registered_string_in<Engine>::get<Tick>(),
                                         nvtx3::named_category_in<Engine>::get<Hot>()};
    step();
    nvtx3::mark_in<Engine>(L"wide");
  }
  nvtx3::unique_range moved{"moved"};
  std::thread([range = std::move(moved)] {}).join();
  nvtxDomainHandle_t domain = nvtxDomainCreateA("shared");
  nvtxRangePushA("pushed here, popped there");
  library_work(nvtxDomainRegisterStringA(domain, "registered here, used there"));
  std::printf("%d\n", nvtxRangePop());
}
