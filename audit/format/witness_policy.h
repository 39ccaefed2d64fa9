/*
 * audit/format/witness_policy.h -- which witnesses must have cosigned a checkpoint before it counts (C2SP tlog-policy;
 * docs/formats/audit-log.md section 11).
 *
 * A policy comes from the person who relies on the checkpoint, never from the place that the checkpoint comes from.
 */
#pragma once

#include "audit/format/log_keys.h"
#include "base/owned.h"

/* The specification recommends at least 32 of each. */
#define WITNESS_POLICY_LOGS_MAX      32
#define WITNESS_POLICY_WITNESSES_MAX 32
#define WITNESS_POLICY_GROUPS_MAX    32
#define WITNESS_POLICY_URL_SIZE      512
#define WITNESS_POLICY_BYTES_MAX     (64 << 10)

/* A policy that replaces the pinned one (keyd/quorum.h): the type of the DSSE payload, and its first line: this, the origin, the epoch. */
#define WITNESS_POLICY_PAYLOAD "application/vnd.sijil.witness-policy.v1"
#define WITNESS_POLICY_TITLE   "sijil-witness-policy/v1"

#define WITNESS_POLICY_NONE (-1) /* no group has the member; no cosignature is needed */

/* What a quorum or a group counts. Each is a member of one group at the most, so it counts once. */
struct policy_member {
    char name[NOTE_NAME_MAX + 1]; /* in the policy alone: no signature has it */
    int group;                    /* the group that has it, or WITNESS_POLICY_NONE */
};

struct policy_witness {
    struct policy_member member;
    struct note_key key; /* NOTE_COSIGNATURE */
    char url[WITNESS_POLICY_URL_SIZE];
};

struct policy_group {
    struct policy_member member;
    size_t threshold, member_count;
};

struct witness_policy {
    size_t log_count, witness_count, group_count;
    struct note_key logs[WITNESS_POLICY_LOGS_MAX];
    struct policy_witness witnesses[WITNESS_POLICY_WITNESSES_MAX];
    struct policy_group groups[WITNESS_POLICY_GROUPS_MAX]; /* each after the groups that are its members */
    bool needs_none;                                       /* "quorum none" */
    bool quorum_is_group;
    size_t quorum; /* index of a group or of a witness */
};

/** ERROR_INVALID with the number of the line; ERROR_LIMIT for more logs, witnesses, groups or bytes. */
RESULT witness_policy_read(struct bytes text, struct witness_policy **policy_out, struct error *err);
void witness_policy_free(struct witness_policy *policy);
DEFINE_OWNED(witness_policy);

/** Whether the policy is about this log: it lists one of its keys, or it lists no log. */
bool witness_policy_is_about(const struct witness_policy *policy, const struct log_keys *log);

/** What the cosignatures of a checkpoint prove. */
struct witness_verdict {
    bool is_met; /* the quorum has cosigned */
    uint64_t
        since_s; /* the cosignatures made from this second on are a quorum, and from no later one; 0 unless is_met, or if none is needed */
    size_t count;                                   /* witnesses that have cosigned */
    uint64_t times_s[WITNESS_POLICY_WITNESSES_MAX]; /* by witness: when it cosigned; 0: it has not */
};
/** ERROR_DENIED if a line that claims to be by a witness of the policy is no cosignature by it. */
RESULT witness_policy_judge(const struct witness_policy *policy, const struct note *note, struct witness_verdict *verdict_out,
                            struct error *err);
/** Whether witnesses with a time of at least `since_s` are a quorum: what witness_policy_judge() compares. */
bool witness_policy_is_met(const struct witness_policy *policy, const uint64_t times_s[WITNESS_POLICY_WITNESSES_MAX],
                           uint64_t since_s);
/**
 * ERROR_DENIED unless the policy is about this log, and its quorum has cosigned: what a program demands whose user gave a
 * policy. `policy` may be NULL: then nothing is demanded, and the verdict is zeroed.
 */
RESULT witness_policy_demand(const struct witness_policy *policy, const struct log_keys *log, const struct note *note,
                             struct witness_verdict *verdict_out, struct error *err);
/** Appends the verdict for people: "2 of 3 witnesses have cosigned (w1, w2), and the quorum is met". */
RESULT witness_policy_describe(const struct witness_policy *policy, const struct witness_verdict *verdict, struct buffer *text,
                               struct error *err);
/** Appends a member of a JSON object, with the comma before it: the names of those that have cosigned, or null without a policy. */
RESULT witness_policy_json(const struct witness_policy *policy, const struct witness_verdict *verdict, struct buffer *text,
                           struct error *err);
