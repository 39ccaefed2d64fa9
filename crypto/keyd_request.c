/* Requests: for each type its encoder and decoder. */
#include <string.h>

#include "crypto/keyd_protocol_priv.h"

static struct result write_binding(struct buffer *frame, const struct key_binding *binding, struct error *err)
{
    if (binding->scope.region[0] == '\0') return failure(err, ERROR_INVALID, "a key scope needs a region");
    TRY(buffer_add(frame, binding->scope.organisation.bytes, 16, err));
    TRY(buffer_add(frame, binding->scope.project.bytes, 16, err));
    TRY(buffer_add_prefixed(frame, bytes_of_text(binding->scope.region), err));
    TRY(buffer_add(frame, binding->blob.bytes, 16, err));
    return buffer_add(frame, binding->commitment, sizeof binding->commitment, err);
}

static void read_binding(struct reader *fields, struct key_binding *binding)
{
    keyd_read_fixed(fields, binding->scope.organisation.bytes, 16);
    keyd_read_fixed(fields, binding->scope.project.bytes, 16);
    keyd_read_text(fields, binding->scope.region, sizeof binding->scope.region - 1);
    keyd_read_fixed(fields, binding->blob.bytes, 16);
    keyd_read_fixed(fields, binding->commitment, sizeof binding->commitment);
}

static struct result write_identify(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    (void)frame, (void)request, (void)err;
    return SUCCESS;
}

static void read_identify(struct reader *fields, struct keyd_request *request)
{
    (void)fields, (void)request;
}

static struct result write_wrap(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    if (request->as.wrap.data_key.length != DATA_KEY_SIZE)
        return failure(err, ERROR_INVALID, "a data key has %d bytes", DATA_KEY_SIZE);
    TRY(write_binding(frame, &request->as.wrap.binding, err));
    return buffer_add(frame, request->as.wrap.data_key.data, DATA_KEY_SIZE, err);
}

static void read_wrap(struct reader *fields, struct keyd_request *request)
{
    read_binding(fields, &request->as.wrap.binding);
    request->as.wrap.data_key = reader_take(fields, DATA_KEY_SIZE);
}

static struct result write_unwrap(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    TRY(write_binding(frame, &request->as.unwrap.binding, err));
    return keyd_write_wrapped(frame, &request->as.unwrap.wrapped, err);
}

static void read_unwrap(struct reader *fields, struct keyd_request *request)
{
    read_binding(fields, &request->as.unwrap.binding);
    keyd_read_wrapped(fields, &request->as.unwrap.wrapped);
}

static struct result write_checkpoint(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct checkpoint_request *checkpoint = &request->as.checkpoint;

    if (checkpoint->proof_count > KEYD_PROOF_MAX)
        return failure(err, ERROR_INVALID, "a consistency proof has at most %d hashes", KEYD_PROOF_MAX);
    TRY(buffer_add_u64(frame, checkpoint->old_size, err));
    TRY(buffer_add_u64(frame, checkpoint->size, err));
    TRY(buffer_add(frame, checkpoint->root, sizeof checkpoint->root, err));
    TRY(buffer_add_u64(frame, (uint64_t)checkpoint->now_s, err));
    TRY(buffer_add_u8(frame, (uint8_t)checkpoint->proof_count, err));
    return buffer_add(frame, checkpoint->proof, checkpoint->proof_count * sizeof checkpoint->proof[0], err);
}

static void read_checkpoint(struct reader *fields, struct keyd_request *request)
{
    struct checkpoint_request *checkpoint = &request->as.checkpoint;

    checkpoint->old_size = reader_u64(fields);
    checkpoint->size = reader_u64(fields);
    keyd_read_fixed(fields, checkpoint->root, sizeof checkpoint->root);
    checkpoint->now_s = (int64_t)reader_u64(fields);
    checkpoint->proof_count = reader_u8(fields);
    if (checkpoint->proof_count > KEYD_PROOF_MAX) fields->failed = true;
    for (size_t i = 0; i < checkpoint->proof_count && !fields->failed; i++)
        keyd_read_fixed(fields, checkpoint->proof[i], sizeof checkpoint->proof[i]);
}

static struct result write_subject_index(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    TRY(keyd_write_name(frame, request->as.subject_index.issuer, 1, "an issuer", err));
    return keyd_write_name(frame, request->as.subject_index.subject, 1, "a subject", err);
}

static void read_subject_index(struct reader *fields, struct keyd_request *request)
{
    request->as.subject_index.issuer = keyd_read_name(fields);
    request->as.subject_index.subject = keyd_read_name(fields);
}

static struct result write_subject_key_new(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return buffer_add(frame, request->as.subject_key.index, sizeof request->as.subject_key.index, err);
}

static void read_subject_key_new(struct reader *fields, struct keyd_request *request)
{
    keyd_read_fixed(fields, request->as.subject_key.index, sizeof request->as.subject_key.index);
}

static struct result write_subject_key_open(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    TRY(write_subject_key_new(frame, request, err));
    return keyd_write_wrapped(frame, &request->as.subject_key.wrapped, err);
}

static void read_subject_key_open(struct reader *fields, struct keyd_request *request)
{
    read_subject_key_new(fields, request);
    keyd_read_wrapped(fields, &request->as.subject_key.wrapped);
}

static struct result write_pin_approver(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return buffer_add(frame, request->as.approver, sizeof request->as.approver, err);
}

static void read_pin_approver(struct reader *fields, struct keyd_request *request)
{
    keyd_read_fixed(fields, request->as.approver, sizeof request->as.approver);
}

static struct result write_envelopes(struct buffer *frame, const struct bytes envelopes[DOCUMENT_SIGNATURES_MAX], size_t count,
                                     struct error *err)
{
    if (count == 0 || count > DOCUMENT_SIGNATURES_MAX)
        return failure(err, ERROR_INVALID, "a document has 1 to %d envelopes", DOCUMENT_SIGNATURES_MAX);
    TRY(buffer_add_u8(frame, (uint8_t)count, err));
    for (size_t i = 0; i < count; i++) TRY(buffer_add_prefixed(frame, envelopes[i], err));
    return SUCCESS;
}

static size_t read_envelopes(struct reader *fields, struct bytes envelopes_out[DOCUMENT_SIGNATURES_MAX])
{
    const size_t count = reader_u8(fields);

    if (count == 0 || count > DOCUMENT_SIGNATURES_MAX) fields->failed = true;
    for (size_t i = 0; i < count && !fields->failed; i++) envelopes_out[i] = reader_prefixed(fields, KEYD_MESSAGE_MAX);
    return count;
}

static struct result write_pin_document(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct document_pin_request *pin = &request->as.pin;

    TRY(write_envelopes(frame, pin->envelopes, pin->envelope_count, err));
    return keyd_write_event(frame, pin, err);
}

static void read_pin_document(struct reader *fields, struct keyd_request *request)
{
    request->as.pin.envelope_count = read_envelopes(fields, request->as.pin.envelopes);
    keyd_read_event(fields, &request->as.pin);
}

static struct result write_pin_restriction(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct bytes points = request->as.pin.base;

    if (points.length % ECDSA_PUBLIC_SIZE != 0 || points.length / ECDSA_PUBLIC_SIZE > KEYD_POINTS_MAX)
        return failure(err, ERROR_LIMIT, "a restriction is signed by at most %d keys", KEYD_POINTS_MAX);
    TRY(buffer_add_u8(frame, (uint8_t)(points.length / ECDSA_PUBLIC_SIZE), err));
    TRY(buffer_add(frame, points.data, points.length, err));
    return write_pin_document(frame, request, err);
}

static void read_pin_restriction(struct reader *fields, struct keyd_request *request)
{
    const size_t count = reader_u8(fields);

    if (count > KEYD_POINTS_MAX) fields->failed = true;
    if (!fields->failed) request->as.pin.base = reader_take(fields, count * ECDSA_PUBLIC_SIZE);
    read_pin_document(fields, request);
}

static struct result write_documents(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return write_identify(frame, request, err);
}

static void read_documents(struct reader *fields, struct keyd_request *request)
{
    read_identify(fields, request);
}

static struct result write_rewrap(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return write_unwrap(frame, request, err);
}

static void read_rewrap(struct reader *fields, struct keyd_request *request)
{
    read_unwrap(fields, request);
}

static struct result write_versions_unused(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return buffer_add_u32(frame, request->as.unused_below, err);
}

static void read_versions_unused(struct reader *fields, struct keyd_request *request)
{
    request->as.unused_below = reader_u32(fields);
}

static struct result write_run_end(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return buffer_add(frame, request->as.ended, sizeof request->as.ended, err);
}

static void read_run_end(struct reader *fields, struct keyd_request *request)
{
    keyd_read_fixed(fields, request->as.ended, sizeof request->as.ended);
}

static struct result write_log_forked(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    if (request->as.finding[0] == '\0') return failure(err, ERROR_INVALID, "a finding says what does not fit");
    return buffer_add_prefixed(frame, bytes_of_text(request->as.finding), err);
}

static void read_log_forked(struct reader *fields, struct keyd_request *request)
{
    keyd_read_text(fields, request->as.finding, sizeof request->as.finding - 1);
}

static struct result write_certify_deletion(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_deletion *deletion = &request->as.deletion;

    TRY(buffer_add_u64(frame, deletion->sequence, err));
    TRY(buffer_add(frame, deletion->leaf_hash, sizeof deletion->leaf_hash, err));
    TRY(buffer_add(frame, deletion->scope.organisation.bytes, 16, err));
    TRY(buffer_add(frame, deletion->scope.project.bytes, 16, err));
    TRY(keyd_write_name(frame, bytes_of_text(deletion->scope.region), 1, "a region", err));
    TRY(keyd_write_name(frame, deletion->name, 1, "a project's name", err));
    TRY(keyd_write_name(frame, deletion->digest, 1, "a digest", err));
    TRY(buffer_add(frame, deletion->blob.bytes, 16, err));
    TRY(buffer_add_u64(frame, deletion->size_bytes, err));
    TRY(buffer_add_u64(frame, (uint64_t)deletion->forgotten_ms, err));
    TRY(buffer_add_u32(frame, deletion->key_version, err));
    return buffer_add_u8(frame, deletion->is_stored_again, err);
}

static void read_certify_deletion(struct reader *fields, struct keyd_request *request)
{
    struct keyd_deletion *deletion = &request->as.deletion;

    deletion->sequence = reader_u64(fields);
    keyd_read_fixed(fields, deletion->leaf_hash, sizeof deletion->leaf_hash);
    keyd_read_fixed(fields, deletion->scope.organisation.bytes, 16);
    keyd_read_fixed(fields, deletion->scope.project.bytes, 16);
    keyd_read_text(fields, deletion->scope.region, sizeof deletion->scope.region - 1);
    deletion->name = keyd_read_name(fields);
    deletion->digest = keyd_read_name(fields);
    keyd_read_fixed(fields, deletion->blob.bytes, 16);
    deletion->size_bytes = reader_u64(fields);
    deletion->forgotten_ms = (int64_t)reader_u64(fields);
    deletion->key_version = reader_u32(fields);
    deletion->is_stored_again = keyd_read_flag(fields);
}

static struct result write_certify_runner(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct document_chain_request *chain = &request->as.chain;

    if (chain->later.length % DOCUMENT_LINK_SIZE != 0 || chain->later.length > (size_t)DOCUMENT_LINKS_MAX * DOCUMENT_LINK_SIZE)
        return failure(err, ERROR_LIMIT, "a proof has at most %d later documents", DOCUMENT_LINKS_MAX);
    TRY(write_envelopes(frame, chain->envelopes, chain->envelope_count, err));
    TRY(buffer_add_u64(frame, chain->sequence, err));
    TRY(buffer_add(frame, chain->before, sizeof chain->before, err));
    return buffer_add_prefixed(frame, chain->later, err);
}

static void read_certify_runner(struct reader *fields, struct keyd_request *request)
{
    struct document_chain_request *chain = &request->as.chain;

    chain->envelope_count = read_envelopes(fields, chain->envelopes);
    chain->sequence = reader_u64(fields);
    keyd_read_fixed(fields, chain->before, sizeof chain->before);
    chain->later = reader_prefixed(fields, (size_t)DOCUMENT_LINKS_MAX * DOCUMENT_LINK_SIZE);
    if (chain->later.length % DOCUMENT_LINK_SIZE != 0) fields->failed = true;
}

#define write_token             keyd_write_token
#define read_token              keyd_read_token
#define write_bound_token       keyd_write_bound_token
#define read_bound_token        keyd_read_bound_token
#define write_pin_policy        keyd_write_pin_policy
#define read_pin_policy         keyd_read_pin_policy
#define write_pin_set           keyd_write_pin_set
#define read_pin_set            keyd_read_pin_set
#define write_policy_ids        keyd_write_policy_ids
#define read_policy_ids         keyd_read_policy_ids
#define write_replace_key       write_pin_document
#define read_replace_key        read_pin_document
#define write_key_power         keyd_write_key_power_asked
#define read_key_power          keyd_read_key_power_asked
#define write_root_terms        write_identify
#define read_root_terms         read_identify
#define write_nonces            write_identify
#define read_nonces             read_identify
#define write_token_keys        write_identify
#define read_token_keys         read_identify
#define write_subject_rewrap    write_subject_key_open
#define read_subject_rewrap     read_subject_key_open
#define write_certify_erasure   keyd_write_erasure
#define read_certify_erasure    keyd_read_erasure
#define write_log_keys          write_identify
#define read_log_keys           read_identify
#define write_log_rotate        keyd_write_log_rotate
#define read_log_rotate         keyd_read_log_rotate
#define write_pin_witnesses     keyd_write_pin_witnesses
#define read_pin_witnesses      keyd_read_pin_witnesses
#define write_cosigned          keyd_write_cosigned
#define read_cosigned           keyd_read_cosigned
#define write_recover           keyd_write_recover
#define read_recover            keyd_read_recover
#define write_witnesses         write_identify
#define read_witnesses          read_identify
#define write_last_checkpoint   write_identify
#define read_last_checkpoint    read_identify
#define write_run_request       keyd_write_run_request
#define read_run_request        keyd_read_run_request
#define write_run_order         keyd_write_run
#define read_run_order          keyd_read_run
#define write_run_lease         keyd_write_run
#define read_run_lease          keyd_read_run
#define write_run_admission     keyd_write_run
#define read_run_admission      keyd_read_run
#define write_current           write_identify
#define read_current            read_identify
#define write_place             keyd_write_place_asked
#define read_place              keyd_read_place_asked
#define write_take_current      keyd_write_current_handed
#define read_take_current       keyd_read_current_handed
#define write_certify_elsewhere write_certify_deletion
#define read_certify_elsewhere  read_certify_deletion
#define write_show_set          keyd_write_shown
#define read_show_set           keyd_read_shown

struct codec {
    struct result (*write)(struct buffer *frame, const struct keyd_request *request, struct error *err);
    void (*read)(struct reader *fields, struct keyd_request *request);
};
static const struct codec codecs[] = {
#define X(number, type, name) [number] = {write_##name, read_##name},
    KEYD_TYPES(X)
#undef X
};

struct result keyd_request_write(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    TRY(keyd_frame_begin(frame, request->type, request->id, err));
    TRY(codecs[request->type].write(frame, request, err));
    return keyd_frame_end(frame, err);
}

struct result keyd_request_read(struct bytes message, struct keyd_request *request_out, struct error *err)
{
    struct keyd_request request = {0};
    struct reader fields;
    uint8_t type = 0;

    TRY(keyd_frame_open(message, &type, &request.id, &fields, err));
    if (type >= sizeof codecs / sizeof codecs[0] || codecs[type].read == NULL)
        return failure(err, ERROR_INVALID, "sijil-keyd knows no message of type %u", type);
    request.type = (enum keyd_type)type;
    codecs[type].read(&fields, &request);
    if (!reader_is_done(&fields)) return failure(err, ERROR_INVALID, "a message of type %u for sijil-keyd is malformed", type);
    *request_out = request;
    return SUCCESS;
}
