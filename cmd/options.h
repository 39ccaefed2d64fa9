/*
 * cmd/options.h -- the command lines of the programs without commands: one table for each.
 *
 * The programs parse their options and print --help with these tables; cmd/manual makes man pages and completions of them.
 * The table of `sijil` is in client/commands/commands.def.
 */
#pragma once

#include "base/program.h"

enum sijild_option {
    SIJILD_CONFIG = 256,
    SIJILD_CHECK,
    SIJILD_ONLINE,
    SIJILD_DATABASE_OWNER,
    SIJILD_REPLACE_ADMIN,
    SIJILD_SAMPLE,
    SIJILD_MIGRATE,
    SIJILD_FOUND,
    SIJILD_APPROVER,
    SIJILD_POLICY_SET,
    SIJILD_EMBEDDED,
    SIJILD_ADDRESS,
    SIJILD_PORT,
    SIJILD_URL,
    SIJILD_GEO,
    SIJILD_OPERATOR,
    SIJILD_NETWORK,
    SIJILD_PASSPHRASE_FILE,
    SIJILD_PASSPHRASE_FD,
    SIJILD_SECRETS,
    SIJILD_BLOB_LEASE,
    SIJILD_COLLECT_INTERVAL,
    SIJILD_NEW_ADMIN,
    SIJILD_HELP,
    SIJILD_VERSION
};

enum keyd_option {
    KEYD_DIRECTORY = 256,
    KEYD_SOCKET,
    KEYD_PASSPHRASE_FILE,
    KEYD_PASSPHRASE_FD,
    KEYD_ALLOW_UID,
    KEYD_SOCKET_GROUP,
    KEYD_ORIGIN,
    KEYD_INIT,
    KEYD_ADD_VERSION,
    KEYD_DESTROY_VERSION,
    KEYD_FORCE,
    KEYD_LOG_RESTORED,
    KEYD_TOKEN_MODULE,
    KEYD_TOKEN_LABEL,
    KEYD_TOKEN_PIN_FILE,
    KEYD_TOKEN_TIMEOUT,
    KEYD_HELP,
    KEYD_VERSION
};

enum verify_option {
    VERIFY_KEY = 256,
    VERIFY_ENTRY,
    VERIFY_SIGNER,
    VERIFY_ROOT,
    VERIFY_SET,
    VERIFY_JSON,
    VERIFY_HELP,
    VERIFY_VERSION
};

enum runner_option {
    RUNNER_LEAST = 256,
    RUNNER_JSON,
    RUNNER_WORK,
    RUNNER_USER,
    RUNNER_CGROUP,
    RUNNER_NVML,
    RUNNER_SLURM,
    RUNNER_SLURM_USER,
    RUNNER_SLURM_TOKEN,
    RUNNER_SLURM_CONFIG,
    RUNNER_SLURM_PROGRAMS,
    RUNNER_SLURM_REGION,
    RUNNER_SLURM_PARTITION,
    RUNNER_SLURM_GRES,
    RUNNER_SLURM_EXTRA,
    RUNNER_SLURM_PATIENCE,
    RUNNER_SLURM_RUNNER,
    RUNNER_JOBS,
    RUNNER_JOBS_USER,
    RUNNER_CA,
    RUNNER_DEVICES,
    RUNNER_CODE,
    RUNNER_INPUT,
    RUNNER_OUTPUT,
    RUNNER_ADD,
    RUNNER_QUIET,
    RUNNER_STATE,
    RUNNER_CODE_FILE,
    RUNNER_ROOT,
    RUNNER_SIGNER,
    RUNNER_LOG_KEY,
    RUNNER_WAIT,
    RUNNER_PARALLEL,
    RUNNER_CPUS,
    RUNNER_MEMORY,
    RUNNER_LIMIT,
    RUNNER_DRAIN,
    RUNNER_HELP,
    RUNNER_VERSION
};

extern const struct program sijild_program, keyd_program, verify_program, runner_program;
