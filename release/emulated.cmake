# CMake's toolchain file for tests on another machine's processor: static programs, with musl as C
# library, that an emulator of Linux's calls runs. WARPLINE_MACHINE is as in zig.cmake.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{WARPLINE_MACHINE})
set(CMAKE_CXX_COMPILER python-zig c++ -target $ENV{WARPLINE_MACHINE}-linux-musl)
set(WARPLINE_RUNTIME_IS_HIDDEN ON) # the linker has no --exclude-libs
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
