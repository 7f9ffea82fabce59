"""What the simulated programs of the demo host have in common. Standard library only.

They are told about the host by their environment:
    DSV4_DEMO_FOLDER   the host's folder: state/ and alive; without it nothing here runs
    DSV4_DEMO_GPUS     how many GPUs it has, 8 unless set
    DSV4_DEMO_LOAD     0: no simulated users, so that only real requests count
    DSV4_DEMO_START_S  seconds that a server takes to start, 8 unless set; other waits keep their ratio to it
and by NCCL_PROTO how fast they decode (see sglang.nccl).
"""
