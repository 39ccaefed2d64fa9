/* Replies: for each type its encoder and decoder. */
#include <string.h>

#include "crypto/keyd_protocol_priv.h"
#include "crypto/runner_certificate.h"

enum { SUBJECT_KEY_SIZE = 32 };

static struct result write_minter(struct buffer *frame, const struct minter *minter, struct error *err)
{
    TRY(buffer_add(frame, minter->credential, sizeof minter->credential, err));
    return buffer_add_u64(frame, minter->count, err);
}

static void read_mints(struct reader *fields, struct keyd_identity *identity)
{
    for (size_t i = 0; i < MINT_SCOPES; i++) identity->mints[i] = reader_u64(fields);
    identity->mints_lost = reader_u64(fields);
    identity->minter_count = reader_u8(fields);
    if (identity->minter_count > MINTERS_MAX) fields->failed = true;
    for (size_t i = 0; i < identity->minter_count && !fields->failed; i++) {
        keyd_read_fixed(fields, identity->minters[i].credential, MINTER_ID_SIZE);
        identity->minters[i].count = reader_u64(fields);
    }
}

static struct result write_identify(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    const struct keyd_identity *identity = &reply->as.identity;

    TRY(buffer_add_prefixed(frame, bytes_of_text(identity->origin), err));
    TRY(buffer_add_prefixed(frame, bytes_of_text(identity->log_vkey), err));
    TRY(buffer_add_prefixed(frame, bytes_of_text(identity->token_kid), err));
    TRY(buffer_add(frame, identity->token_public, sizeof identity->token_public, err));
    TRY(buffer_add_u64(frame, identity->log_size, err));
    TRY(buffer_add(frame, identity->log_root, sizeof identity->log_root, err));
    TRY(buffer_add_u64(frame, identity->policy_epoch, err));
    TRY(buffer_add(frame, identity->policy_digest, sizeof identity->policy_digest, err));
    TRY(buffer_add(frame, identity->approver_root, sizeof identity->approver_root, err));
    TRY(buffer_add_u64(frame, identity->unwrap_count, err));
    TRY(buffer_add(frame, identity->unwrap_chain, sizeof identity->unwrap_chain, err));
    TRY(buffer_add_u32(frame, identity->key_version, err));
    TRY(buffer_add_u32(frame, identity->unused_below, err));
    TRY(buffer_add(frame, identity->document_public, sizeof identity->document_public, err));
    TRY(buffer_add(frame, identity->runner_authority, sizeof identity->runner_authority, err));
    for (size_t i = 0; i < MINT_SCOPES; i++) TRY(buffer_add_u64(frame, identity->mints[i], err));
    TRY(buffer_add_u64(frame, identity->mints_lost, err));
    TRY(buffer_add_u8(frame, (uint8_t)identity->minter_count, err));
    for (size_t i = 0; i < identity->minter_count; i++) TRY(write_minter(frame, &identity->minters[i], err));
    TRY(buffer_add_u8(frame, (uint8_t)identity->version_count, err));
    for (size_t i = 0; i < identity->version_count; i++) TRY(buffer_add_u32(frame, identity->versions[i], err));
    return SUCCESS;
}

static void read_identify(struct reader *fields, struct keyd_reply *reply)
{
    struct keyd_identity *identity = &reply->as.identity;

    keyd_read_text(fields, identity->origin, sizeof identity->origin - 1);
    keyd_read_text(fields, identity->log_vkey, sizeof identity->log_vkey - 1);
    keyd_read_text(fields, identity->token_kid, sizeof identity->token_kid - 1);
    keyd_read_fixed(fields, identity->token_public, sizeof identity->token_public);
    identity->log_size = reader_u64(fields);
    keyd_read_fixed(fields, identity->log_root, sizeof identity->log_root);
    identity->policy_epoch = reader_u64(fields);
    keyd_read_fixed(fields, identity->policy_digest, sizeof identity->policy_digest);
    keyd_read_fixed(fields, identity->approver_root, sizeof identity->approver_root);
    identity->unwrap_count = reader_u64(fields);
    keyd_read_fixed(fields, identity->unwrap_chain, sizeof identity->unwrap_chain);
    identity->key_version = reader_u32(fields);
    identity->unused_below = reader_u32(fields);
    keyd_read_fixed(fields, identity->document_public, sizeof identity->document_public);
    keyd_read_fixed(fields, identity->runner_authority, sizeof identity->runner_authority);
    read_mints(fields, identity);
    identity->version_count = reader_u8(fields);
    if (identity->version_count > KEYD_VERSIONS_MAX) fields->failed = true;
    for (size_t i = 0; i < identity->version_count && !fields->failed; i++) identity->versions[i] = reader_u32(fields);
}

static struct result write_wrap(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return keyd_write_wrapped(frame, &reply->as.wrapped, err);
}

static void read_wrap(struct reader *fields, struct keyd_reply *reply)
{
    keyd_read_wrapped(fields, &reply->as.wrapped);
}

static struct result write_unwrap(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add(frame, reply->as.data_key.data, DATA_KEY_SIZE, err);
}

static void read_unwrap(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.data_key = reader_take(fields, DATA_KEY_SIZE);
}

static struct result write_token(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    TRY(buffer_add_prefixed(frame, reply->as.token.text, err));
    return buffer_add_u64(frame, (uint64_t)reply->as.token.issued_at_s, err);
}

static void read_token(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.token.text = reader_prefixed(fields, KEYD_TOKEN_MAX);
    reply->as.token.issued_at_s = (int64_t)reader_u64(fields);
}

static struct result write_checkpoint(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add_prefixed(frame, reply->as.note, err);
}

static void read_checkpoint(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.note = reader_prefixed(fields, KEYD_NOTE_MAX);
}

static struct result write_subject_index(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add(frame, reply->as.index, sizeof reply->as.index, err);
}

static void read_subject_index(struct reader *fields, struct keyd_reply *reply)
{
    keyd_read_fixed(fields, reply->as.index, sizeof reply->as.index);
}

static struct result write_subject_key_open(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add(frame, reply->as.subject_key.key.data, SUBJECT_KEY_SIZE, err);
}

static void read_subject_key_open(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.subject_key.key = reader_take(fields, SUBJECT_KEY_SIZE);
}

static struct result write_subject_key_new(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    TRY(write_subject_key_open(frame, reply, err));
    return keyd_write_wrapped(frame, &reply->as.subject_key.wrapped, err);
}

static void read_subject_key_new(struct reader *fields, struct keyd_reply *reply)
{
    read_subject_key_open(fields, reply);
    keyd_read_wrapped(fields, &reply->as.subject_key.wrapped);
}

static struct result write_pin_approver(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    (void)frame, (void)reply, (void)err;
    return SUCCESS;
}

static void read_pin_approver(struct reader *fields, struct keyd_reply *reply)
{
    (void)fields, (void)reply;
}

static struct result write_pin(struct buffer *frame, const struct document_pin *pin, struct error *err)
{
    TRY(buffer_add_u64(frame, pin->epoch, err));
    return buffer_add(frame, pin->digest, sizeof pin->digest, err);
}

static void read_pin(struct reader *fields, struct document_pin *pin)
{
    pin->epoch = reader_u64(fields);
    keyd_read_fixed(fields, pin->digest, sizeof pin->digest);
}

static struct result write_pin_document(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_pin(frame, &reply->as.pin, err);
}

static void read_pin_document(struct reader *fields, struct keyd_reply *reply)
{
    read_pin(fields, &reply->as.pin);
}

static struct result write_document_approver(struct buffer *frame, const struct document_approver *approver, struct error *err)
{
    TRY(buffer_add(frame, approver->point, sizeof approver->point, err));
    TRY(buffer_add(frame, approver->principal, sizeof approver->principal, err));
    TRY(buffer_add_u64(frame, (uint64_t)approver->expires_ms, err));
    return buffer_add_u8(frame, approver->is_revoked ? 1 : 0, err);
}

static struct result write_documents(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    const struct keyd_documents *documents = &reply->as.documents;

    TRY(buffer_add(frame, documents->root, sizeof documents->root, err));
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) TRY(write_pin(frame, &documents->pins[i], err));
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) TRY(write_document_approver(frame, &documents->approvers[i], err));
    return SUCCESS;
}

static void read_documents(struct reader *fields, struct keyd_reply *reply)
{
    struct keyd_documents *documents = &reply->as.documents;

    keyd_read_fixed(fields, documents->root, sizeof documents->root);
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) read_pin(fields, &documents->pins[i]);
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        struct document_approver *approver = &documents->approvers[i];
        keyd_read_fixed(fields, approver->point, sizeof approver->point);
        keyd_read_fixed(fields, approver->principal, sizeof approver->principal);
        approver->expires_ms = (int64_t)reader_u64(fields);
        approver->is_revoked = keyd_read_flag(fields);
    }
}

static struct result write_rewrap(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_wrap(frame, reply, err);
}

static void read_rewrap(struct reader *fields, struct keyd_reply *reply)
{
    read_wrap(fields, reply);
}

static struct result write_versions_unused(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_pin_approver(frame, reply, err);
}

static void read_versions_unused(struct reader *fields, struct keyd_reply *reply)
{
    read_pin_approver(fields, reply);
}

static struct result write_log_rotate(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_pin_approver(frame, reply, err);
}

static void read_log_rotate(struct reader *fields, struct keyd_reply *reply)
{
    read_pin_approver(fields, reply);
}

static struct result write_pin_witnesses(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_pin_approver(frame, reply, err);
}

static void read_pin_witnesses(struct reader *fields, struct keyd_reply *reply)
{
    read_pin_approver(fields, reply);
}

static struct result write_cosigned(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_pin_approver(frame, reply, err);
}

static void read_cosigned(struct reader *fields, struct keyd_reply *reply)
{
    read_pin_approver(fields, reply);
}

static struct result write_log_forked(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_pin_approver(frame, reply, err);
}

static void read_log_forked(struct reader *fields, struct keyd_reply *reply)
{
    read_pin_approver(fields, reply);
}

static struct result write_run_end(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_pin_approver(frame, reply, err);
}

static void read_run_end(struct reader *fields, struct keyd_reply *reply)
{
    read_pin_approver(fields, reply);
}

static struct result write_certify_deletion(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add_prefixed(frame, reply->as.envelope, err);
}

static void read_certify_deletion(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.envelope = reader_prefixed(fields, KEYD_ENVELOPE_MAX);
}

static struct result write_subject_rewrap(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_wrap(frame, reply, err);
}

static void read_subject_rewrap(struct reader *fields, struct keyd_reply *reply)
{
    read_wrap(fields, reply);
}

static struct result write_certify_erasure(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return write_certify_deletion(frame, reply, err);
}

static void read_certify_erasure(struct reader *fields, struct keyd_reply *reply)
{
    read_certify_deletion(fields, reply);
}

static struct result write_certify_runner(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add_prefixed(frame, reply->as.certificate, err);
}

static void read_certify_runner(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.certificate = reader_prefixed(fields, RUNNER_CERTIFICATE_MAX);
}

static struct result write_run(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add_prefixed(frame, reply->as.envelope, err);
}

static void read_run(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.envelope = reader_prefixed(fields, KEYD_RUN_ENVELOPE_MAX);
}
#define write_pin_policy        write_pin_document
#define read_pin_policy         read_pin_document
#define write_pin_set           write_pin_document
#define read_pin_set            read_pin_document
#define write_pin_restriction   write_pin_document
#define read_pin_restriction    read_pin_document
#define write_policy_ids        keyd_write_unused_ids
#define read_policy_ids         keyd_read_unused_ids
#define write_recover           write_pin_approver
#define read_recover            read_pin_approver
#define write_last_checkpoint   write_checkpoint
#define write_witnesses         keyd_write_witnesses
#define read_witnesses          keyd_read_witnesses
#define read_last_checkpoint    read_checkpoint
#define write_log_keys          keyd_write_known_log_keys
#define read_log_keys           keyd_read_known_log_keys
#define write_bound_token       write_token
#define read_bound_token        read_token
#define write_replace_key       keyd_write_replaced
#define read_replace_key        keyd_read_replaced
#define write_key_power         keyd_write_key_power
#define read_key_power          keyd_read_key_power
#define write_root_terms        keyd_write_root_terms
#define read_root_terms         keyd_read_root_terms
#define write_nonces            keyd_write_nonces
#define read_nonces             keyd_read_nonces
#define write_token_keys        keyd_write_token_keys
#define read_token_keys         keyd_read_token_keys
#define write_run_request       write_run
#define read_run_request        read_run
#define write_run_order         write_run
#define read_run_order          read_run
#define write_run_lease         write_run
#define read_run_lease          read_run
#define write_run_admission     write_run
#define read_run_admission      read_run
#define write_current           write_certify_deletion
#define read_current            read_certify_deletion
#define write_place             keyd_write_place
#define read_place              keyd_read_place
#define write_take_current      write_pin_document
#define read_take_current       read_pin_document
#define write_certify_elsewhere write_certify_deletion
#define read_certify_elsewhere  read_certify_deletion
#define write_show_set          write_pin_approver
#define read_show_set           read_pin_approver

/* The number of an error kind in the protocol is its position in ERROR_KINDS, counted from 1. */
static struct result write_error(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    TRY(buffer_add_u8(frame, (uint8_t)reply->as.error.kind, err));
    return buffer_add_prefixed(frame, reply->as.error.message, err);
}

static void read_error(struct reader *fields, struct keyd_reply *reply)
{
    const uint8_t kind = reader_u8(fields);

    if (kind == ERROR_NONE || kind > ERROR_FORKED) fields->failed = true;
    reply->as.error.kind = (enum error_kind)kind;
    reply->as.error.message = reader_prefixed(fields, sizeof((struct error *)0)->message - 1);
}

struct codec {
    struct result (*write)(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
    void (*read)(struct reader *fields, struct keyd_reply *reply);
};
static const struct codec codecs[256] = {
#define X(number, type, name) [number] = {write_##name, read_##name},
    KEYD_TYPES(X)
#undef X
        [KEYD_ERROR] = {write_error, read_error},
};

struct result keyd_reply_write(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    TRY(keyd_frame_begin(frame, reply->type, reply->id, err));
    TRY(codecs[reply->type].write(frame, reply, err));
    return keyd_frame_end(frame, err);
}

struct result keyd_reply_read(struct bytes message, struct keyd_reply *reply_out, struct error *err)
{
    struct keyd_reply reply = {0};
    struct reader fields;
    uint8_t type = 0;

    TRY(keyd_frame_open(message, &type, &reply.id, &fields, err));
    if (codecs[type].read == NULL) return failure(err, ERROR_INVALID, "sijil-keyd gives no reply of type %u", type);
    reply.type = (enum keyd_type)type;
    codecs[type].read(&fields, &reply);
    if (!reader_is_done(&fields)) return failure(err, ERROR_INVALID, "a reply of type %u from sijil-keyd is malformed", type);
    *reply_out = reply;
    return SUCCESS;
}
