#include "crypto/keyd_client.h"

#include <stdio.h>
#include <string.h>

#include "crypto/ecdsa.h"
#include "crypto/keyd_client_priv.h"

struct result keyd_identify(struct keyd_client *client, struct keyd_identity *identity_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_IDENTIFY};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    *identity_out = call.reply.as.identity;
    return SUCCESS;
}

struct result keyd_signer(struct keyd_client *client, struct ecdsa_key **key_out, struct error *err)
{
    struct keyd_identity identity;

    TRY(keyd_identify(client, &identity, err));
    return ecdsa_key_from_public(identity.document_public, key_out, err);
}

struct key_binding key_binding_of(const struct key_scope *scope, const struct uuid *blob, const uint8_t commitment[32])
{
    struct key_binding binding = {.scope = *scope, .blob = *blob};

    memcpy(binding.commitment, commitment, sizeof binding.commitment);
    return binding;
}

struct result keyd_versions_unused(struct keyd_client *client, uint32_t version, struct error *err)
{
    struct keyd_request request = {.type = KEYD_VERSIONS_UNUSED, .as.unused_below = version};
    OWNED_CALL call = {0};

    return keyd_call(client, &request, &call, err);
}

static void deletion_of(const struct deletion_request *wanted, struct keyd_deletion *deletion)
{
    deletion->sequence = wanted->sequence;
    memcpy(deletion->leaf_hash, wanted->leaf_hash, sizeof deletion->leaf_hash);
    deletion->scope = wanted->scope;
    deletion->name = bytes_of_text(wanted->name);
    deletion->digest = bytes_of_text(wanted->digest);
    deletion->blob = wanted->blob;
    deletion->size_bytes = wanted->size_bytes;
    deletion->forgotten_ms = wanted->forgotten_ms;
    deletion->key_version = wanted->key_version;
    deletion->is_stored_again = wanted->is_stored_again;
}

static struct result certify(struct keyd_client *client, enum keyd_type type, const struct deletion_request *wanted,
                             struct buffer *envelope, struct error *err)
{
    struct keyd_request request = {.type = type};
    OWNED_CALL call = {0};

    deletion_of(wanted, &request.as.deletion);
    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(envelope, call.reply.as.envelope.data, call.reply.as.envelope.length, err);
}

struct result keyd_certify_deletion(struct keyd_client *client, const struct deletion_request *wanted, struct buffer *envelope,
                                    struct error *err)
{
    return certify(client, KEYD_CERTIFY_DELETION, wanted, envelope, err);
}

struct result keyd_certify_deletion_elsewhere(struct keyd_client *client, const struct deletion_request *wanted,
                                              struct buffer *envelope, struct error *err)
{
    return certify(client, KEYD_CERTIFY_ELSEWHERE, wanted, envelope, err);
}

static struct bytes optional_text(const char *text)
{
    return text == NULL ? ((struct bytes){0}) : bytes_of_text(text);
}

static struct result token_of(const struct token_request *request, struct keyd_token *token, struct error *err)
{
    if (request->access_count > TOKEN_ACCESS_MAX)
        return failure(err, ERROR_LIMIT, "a token names at most %d repositories", TOKEN_ACCESS_MAX);
    token->issuer = bytes_of_text(request->issuer);
    token->audience = bytes_of_text(request->audience);
    token->subject = bytes_of_text(request->subject);
    token->source = bytes_of_text(request->source);
    token->confirmation = optional_text(request->confirmation);
    token->request = optional_text(request->request);
    token->key = optional_text(request->key);
    token->acr = optional_text(request->acr);
    token->auth_time_s = request->auth_time_s;
    token->organisation = request->organisation;
    token->lifetime_s = request->lifetime_s;
    token->catalog = request->catalog;
    token->administration = request->administration;
    token->access_count = request->access_count;
    for (size_t i = 0; i < request->access_count; i++) {
        const struct token_access *from = &request->access[i];
        token->access[i] = (struct keyd_access){.name = bytes_of_text(from->name),
                                                .repository = from->repository,
                                                .pull = from->pull,
                                                .push = from->push,
                                                .remove = from->remove};
    }
    return SUCCESS;
}

struct result keyd_sign_token(struct keyd_client *client, const struct token_request *token_request, struct buffer *token,
                              int64_t *issued_at_s_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_TOKEN};
    OWNED_CALL call = {0};

    if (token_request->key != NULL || token_request->acr != NULL || token_request->auth_time_s != 0)
        request.type = KEYD_BOUND_TOKEN; /* all others are the same for an older daemon */
    TRY(token_of(token_request, &request.as.token, err));
    TRY(keyd_call(client, &request, &call, err));
    TRY(buffer_add(token, call.reply.as.token.text.data, call.reply.as.token.text.length, err));
    *issued_at_s_out = call.reply.as.token.issued_at_s;
    return SUCCESS;
}

struct result keyd_sign_checkpoint(struct keyd_client *client, const struct checkpoint_request *checkpoint, struct buffer *note,
                                   struct error *err)
{
    struct keyd_request request = {.type = KEYD_CHECKPOINT};
    OWNED_CALL call = {0};

    request.as.checkpoint = *checkpoint;
    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(note, call.reply.as.note.data, call.reply.as.note.length, err);
}

struct result keyd_recover(struct keyd_client *client, const struct keyd_recovery *recovery, struct error *err)
{
    struct keyd_request request = {.type = KEYD_RECOVER};
    OWNED_CALL call = {0};

    request.as.recovery = *recovery;
    return keyd_call(client, &request, &call, err);
}

struct result keyd_last_checkpoint(struct keyd_client *client, struct buffer *note, struct error *err)
{
    struct keyd_request request = {.type = KEYD_LAST_CHECKPOINT};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(note, call.reply.as.note.data, call.reply.as.note.length, err);
}

struct result keyd_pin_witnesses(struct keyd_client *client, const struct keyd_witness_policy *policy, struct error *err)
{
    struct keyd_request request = {.type = KEYD_PIN_WITNESSES};
    OWNED_CALL call = {0};

    request.as.witness_policy = *policy;
    return keyd_call(client, &request, &call, err);
}

struct result keyd_cosigned(struct keyd_client *client, const struct keyd_cosigned *cosigned, struct error *err)
{
    struct keyd_request request = {.type = KEYD_COSIGNED};
    OWNED_CALL call = {0};

    request.as.cosigned = *cosigned;
    return keyd_call(client, &request, &call, err);
}

struct result keyd_witnesses(struct keyd_client *client, struct keyd_witnesses *witnesses_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_WITNESSES};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    *witnesses_out = call.reply.as.witnesses;
    return SUCCESS;
}

struct result keyd_log_rotate(struct keyd_client *client, struct bytes envelope, struct error *err)
{
    struct keyd_request request = {.type = KEYD_LOG_ROTATE, .as.log_order = envelope};
    OWNED_CALL call = {0};

    return keyd_call(client, &request, &call, err);
}

struct result keyd_log_keys(struct keyd_client *client, struct buffer *keys, struct keyd_log_keys *state_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_LOG_KEYS};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    const struct bytes next = call.reply.as.log_keys.next, known = call.reply.as.log_keys.keys;
    if (next.length >= sizeof state_out->next) return failure(err, ERROR_UNAVAILABLE, "sijil-keyd names a key that is too long");
    TRY(buffer_add(keys, known.data, known.length, err));
    *state_out = (struct keyd_log_keys){.retires_s = call.reply.as.log_keys.retires_s};
    memcpy(state_out->next, next.data, next.length);
    return SUCCESS;
}

struct result keyd_token_keys(struct keyd_client *client, struct keyd_token_keys *keys_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_TOKEN_KEYS};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    *keys_out = call.reply.as.token_keys;
    return SUCCESS;
}

struct result keyd_root_terms(struct keyd_client *client, struct root_terms *terms_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_ROOT_TERMS};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    *terms_out = call.reply.as.root_terms;
    return SUCCESS;
}

struct result keyd_nonces(struct keyd_client *client, struct keyd_nonces *nonces_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_NONCES};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    *nonces_out = call.reply.as.nonces;
    return SUCCESS;
}

struct result keyd_log_forked(struct keyd_client *client, const char *finding, struct error *err)
{
    struct keyd_request request = {.type = KEYD_LOG_FORKED};
    OWNED_CALL call = {0};

    (void)snprintf(request.as.finding, sizeof request.as.finding, "%s", finding);
    return keyd_call(client, &request, &call, err);
}

struct result keyd_subject_index(struct keyd_client *client, const char *issuer, const char *subject, uint8_t index_out[32],
                                 struct error *err)
{
    struct keyd_request request = {.type = KEYD_SUBJECT_INDEX};
    OWNED_CALL call = {0};

    request.as.subject_index.issuer = bytes_of_text(issuer);
    request.as.subject_index.subject = bytes_of_text(subject);
    TRY(keyd_call(client, &request, &call, err));
    memcpy(index_out, call.reply.as.index, sizeof call.reply.as.index);
    return SUCCESS;
}

struct result keyd_subject_key_new(struct keyd_client *client, const uint8_t index[32], struct secret **key_out,
                                   struct wrapped_key *wrapped_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_SUBJECT_KEY_NEW};
    OWNED_CALL call = {0};

    memcpy(request.as.subject_key.index, index, sizeof request.as.subject_key.index);
    TRY(keyd_call(client, &request, &call, err));
    TRY(secret_copy(call.reply.as.subject_key.key, key_out, err));
    *wrapped_out = call.reply.as.subject_key.wrapped;
    return SUCCESS;
}

struct result keyd_subject_key_open(struct keyd_client *client, const uint8_t index[32], const struct wrapped_key *wrapped,
                                    struct secret **key_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_SUBJECT_KEY_OPEN};
    OWNED_CALL call = {0};

    memcpy(request.as.subject_key.index, index, sizeof request.as.subject_key.index);
    request.as.subject_key.wrapped = *wrapped;
    TRY(keyd_call(client, &request, &call, err));
    return secret_copy(call.reply.as.subject_key.key, key_out, err);
}

struct result keyd_subject_rewrap(struct keyd_client *client, const uint8_t index[32], const struct wrapped_key *wrapped,
                                  struct wrapped_key *wrapped_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_SUBJECT_REWRAP};
    OWNED_CALL call = {0};

    memcpy(request.as.subject_key.index, index, sizeof request.as.subject_key.index);
    request.as.subject_key.wrapped = *wrapped;
    TRY(keyd_call(client, &request, &call, err));
    *wrapped_out = call.reply.as.wrapped;
    return SUCCESS;
}

struct result keyd_certify_erasure(struct keyd_client *client, const struct erasure_certificate_request *wanted,
                                   struct buffer *envelope, struct error *err)
{
    struct keyd_request request = {.type = KEYD_CERTIFY_ERASURE};
    struct keyd_erasure *erasure = &request.as.erasure;
    OWNED_CALL call = {0};

    erasure->pseudonym = bytes_of_text(wanted->pseudonym);
    erasure->asked = wanted->asked;
    erasure->done = wanted->done;
    memcpy(erasure->asked_hash, wanted->asked_hash, sizeof erasure->asked_hash);
    memcpy(erasure->done_hash, wanted->done_hash, sizeof erasure->done_hash);
    erasure->payloads = wanted->payloads;
    erasure->erased_ms = wanted->erased_ms;
    erasure->key_version = wanted->key_version;
    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(envelope, call.reply.as.envelope.data, call.reply.as.envelope.length, err);
}

struct result keyd_pin_approver(struct keyd_client *client, const uint8_t public_key[65], struct error *err)
{
    struct keyd_request request = {.type = KEYD_PIN_APPROVER};
    OWNED_CALL call = {0};

    memcpy(request.as.approver, public_key, sizeof request.as.approver);
    return keyd_call(client, &request, &call, err);
}

struct result keyd_pin_document(struct keyd_client *client, const struct document_pin_request *pin, struct document_pin *pin_out,
                                struct error *err)
{
    struct keyd_request request = {.type = KEYD_PIN_DOCUMENT};
    OWNED_CALL call = {0};

    request.as.pin = *pin;
    TRY(keyd_call(client, &request, &call, err));
    *pin_out = call.reply.as.pin;
    return SUCCESS;
}

struct result keyd_certify_runner(struct keyd_client *client, const struct document_chain_request *proof, struct buffer *der,
                                  struct error *err)
{
    struct keyd_request request = {.type = KEYD_CERTIFY_RUNNER, .as.chain = *proof};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(der, call.reply.as.certificate.data, call.reply.as.certificate.length, err);
}

struct result keyd_ask_documents(struct keyd_client *client, struct keyd_documents *documents_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_DOCUMENTS};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    *documents_out = call.reply.as.documents;
    return SUCCESS;
}

static struct result sign_run(struct keyd_client *client, enum keyd_type type, const struct keyd_run *wanted,
                              struct buffer *envelope, struct error *err)
{
    struct keyd_request request = {.type = type, .as.run = *wanted};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(envelope, call.reply.as.envelope.data, call.reply.as.envelope.length, err);
}

struct result keyd_run_order(struct keyd_client *client, const struct keyd_run *wanted, struct buffer *envelope,
                             struct error *err)
{
    return sign_run(client, KEYD_RUN_ORDER, wanted, envelope, err);
}

struct result keyd_run_lease(struct keyd_client *client, const struct keyd_run *wanted, struct buffer *envelope,
                             struct error *err)
{
    return sign_run(client, KEYD_RUN_LEASE, wanted, envelope, err);
}

struct result keyd_run_request(struct keyd_client *client, const struct keyd_run_request *wanted, struct buffer *envelope,
                               struct error *err)
{
    struct keyd_request request = {.type = KEYD_RUN_REQUEST};
    OWNED_CALL call = {0};

    request.as.run_request = *wanted;
    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(envelope, call.reply.as.envelope.data, call.reply.as.envelope.length, err);
}

struct result keyd_run_end(struct keyd_client *client, const uint8_t digest[32], struct error *err)
{
    struct keyd_request request = {.type = KEYD_RUN_END};
    OWNED_CALL call = {0};

    memcpy(request.as.ended, digest, sizeof request.as.ended);
    return keyd_call(client, &request, &call, err);
}

struct result keyd_run_admission(struct keyd_client *client, const struct keyd_run *wanted, struct buffer *envelope,
                                 struct error *err)
{
    return sign_run(client, KEYD_RUN_ADMISSION, wanted, envelope, err);
}
