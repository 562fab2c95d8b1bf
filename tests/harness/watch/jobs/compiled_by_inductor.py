"""The job of compiled.py, compiled to machine code as torch.compile does unless told otherwise."""

from compiled import train
from torch._inductor import config
from training import counted

# g++ compiles each graph in a second or two, rather than in ten with the headers for vectors.
config.cpp.vec_isa_ok = False
config.cpp_cache_precompile_headers = False


@counted
def main():
    train()


if __name__ == "__main__":
    main()
