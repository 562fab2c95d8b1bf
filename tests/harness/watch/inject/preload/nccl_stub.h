// What stands for NCCL in tests (nccl_stub.cpp): its communicators say who they are.
#pragma once

struct ncclComm {
  int rank;
  int ranks;
};
