/* `sijil run bundle` and `verify`: the whole run in one file, and what it proves. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "client/commands/printed.h"
#include "client/commands/run_priv.h"
#include "client/local.h"
#include "documents/format/registry_pins.h"
#include "policy/run_verify.h"

static struct result take_piece(void *context, struct bytes piece, struct error *err)
{
    return buffer_add(context, piece.data, piece.length, err);
}

static struct result fetch(struct session *session, const struct run_address *address, struct buffer *bundle, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX);
    OWNED_RESPONSE response = RESPONSE;

    TRY(buffer_add_text(&path, "/api/v1", err));
    TRY(run_path(address, "/bundle", &path, err));
    const struct http_request request = {
        .method = "GET", .path = buffer_text(&path), .take = take_piece, .context = bundle, .wanted = 200};
    return session_call(session, ADMIN_SCOPE, &request, &response, err);
}

static struct result fetch_bundle(struct invocation *invocation, const struct run_address *address, struct buffer *bundle,
                                  struct error *err)
{
    OWNED(session) *session = NULL;

    TRY(command_session(invocation, address->host, &session, err));
    for (unsigned tries = 0;;) {
        buffer_clear(bundle);
        struct result fetched = fetch(session, address, bundle, err);
        if (fetched.ok) fetched = run_manifests_add(session, address, bundle, err);
        if (fetched.ok || !run_tries_again(session, &tries, err)) return fetched;
    }
}

static bool is_of(const struct run_envelope *request, const struct run_address *address)
{
    return strcmp(run_text(request, "run"), address->run) == 0 && strcmp(run_text(request, "project"), address->project) == 0;
}

/* Nothing is verified here, but whoever verifies the file later may have no other name of the run. */
static struct result check_name(struct bytes bundle, const struct run_address *address, struct error *err)
{
    OWNED(run_envelope) *request = NULL;
    OWNED_JSON json = NULL;
    struct error why = {0};

    struct result read = json_read(bundle, RUN_BUNDLE_MAX, &json, &why);
    const char *text = read.ok ? json_text_of(json, run_type_name(RUN_REQUEST)) : NULL;
    if (read.ok) read = run_envelope_read(bytes_of_text(text == NULL ? "" : text), RUN_REQUEST, &request, &why);
    if (!read.ok)
        return failure(err, ERROR_CORRUPT, "the registry answered with something that is no bundle: %.200s", why.message);
    return is_of(request, address) ? SUCCESS
                                   : failure(err, ERROR_CORRUPT, "the registry answered with the bundle of another run");
}

struct result command_run_bundle(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER bundle = BUFFER(RUN_BUNDLE_MAX);
    struct run_address address;

    TRY(run_address_of(invocation, &address, err));
    TRY(fetch_bundle(invocation, &address, &bundle, err));
    TRY(check_name(buffer_bytes(&bundle), &address, err));
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&bundle), err);
}

/* ---- the verifier's own keys ---- */

struct pinned {
    const char *log_key;
    char pinned_key[REGISTRY_LOG_KEY_SIZE];
    struct ecdsa_key *signer, *root;
};

static void pinned_done(struct pinned *pinned)
{
    ecdsa_key_free(pinned->signer);
    ecdsa_key_free(pinned->root);
}
#define OWNED_PINNED __attribute__((cleanup(pinned_done))) struct pinned

static struct result read_pins(const char *path, struct pinned *pinned, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(REGISTRY_PINS_MAX);
    struct registry_pins pins;

    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(registry_pins_read(buffer_bytes(&text), &pins, err), path, err));
    (void)snprintf(pinned->pinned_key, sizeof pinned->pinned_key, "%s", pins.log_key);
    pinned->log_key = pinned->pinned_key;
    TRY(ecdsa_key_from_public(pins.signer, &pinned->signer, err));
    return ecdsa_key_from_public(pins.root, &pinned->root, err);
}

static struct result read_keys(struct invocation *invocation, struct pinned *pinned, struct error *err)
{
    const char *key = invocation_option(invocation, 'k'), *signer = invocation_option(invocation, 's');
    const char *root = invocation_option(invocation, 'R'), *pins = invocation_option(invocation, 'p');

    if (pins != NULL && key == NULL && signer == NULL && root == NULL) return read_pins(pins, pinned, err);
    if (pins != NULL || key == NULL || signer == NULL || root == NULL)
        return line_check(
            invocation,
            failure(err, ERROR_INVALID, "--key, --signer and --root are needed, the keys as you pinned them; or --pins alone"));
    pinned->log_key = key;
    TRY(local(ecdsa_key_load(signer, &pinned->signer, err), signer, err));
    return local(ecdsa_key_load(root, &pinned->root, err), root, err);
}

static struct result read_policy(const struct invocation *invocation, struct witness_policy **policy_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(WITNESS_POLICY_BYTES_MAX);
    const char *path = invocation_option(invocation, 'W');

    if (path == NULL) return SUCCESS;
    TRY(local(file_read(path, &text, err), path, err));
    return local(witness_policy_read(buffer_bytes(&text), policy_out, err), path, err);
}

/* ---- verifying ---- */

static struct result not_verified(struct error *err)
{
    const struct error why = *err;

    return failure(err, ERROR_CORRUPT, "NOT verified: %.230s", why.message);
}

/* A true bundle of another run proves nothing about this one. */
static struct result check_run(const struct run_bundle *bundle, const struct run_address *address, struct error *err)
{
    if (is_of(bundle->chain.request, address)) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "NOT verified: the registry answered with the bundle of another run");
}

static struct result print_proven(const struct invocation *invocation, const struct run_bundle *bundle,
                                  const struct run_repeated *repeated, struct error *err)
{
    struct buffer OWNED_BUFFER answer = BUFFER(RUN_REPORT_MAX);
    struct printed text = {.is_terminal = true}; /* names in a bundle are another person's */
    OWNED_JSON value = NULL;

    if (!invocation->json) {
        TRY(run_bundle_text(bundle, repeated, &answer, err));
        printed_add(&text, buffer_bytes(&answer), stdout);
        printed_end(&text, stdout);
        return SUCCESS;
    }
    TRY(run_bundle_json(bundle, repeated, &answer, err));
    TRY(json_read(buffer_bytes(&answer), RUN_REPORT_MAX, &value, err));
    return api_print_json(value, err);
}

struct result command_run_verify(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_BUNDLE_MAX);
    OWNED_PINNED pinned = {.log_key = NULL};
    OWNED(witness_policy) *policy = NULL;
    OWNED(run_bundle) *bundle = NULL;
    struct run_repeated repeated = {.decisions = 0};
    struct run_address address;

    TRY(run_address_of(invocation, &address, err));
    TRY(read_keys(invocation, &pinned, err));
    TRY(read_policy(invocation, &policy, err));
    TRY(fetch_bundle(invocation, &address, &text, err));
    const struct run_verify_keys keys = {pinned.log_key, pinned.signer, pinned.root, policy, NULL};
    const struct result verified = run_verify(buffer_bytes(&text), &keys, &bundle, &repeated, err);
    if (!verified.ok && err->kind == ERROR_DENIED) return not_verified(err);
    TRY(verified);
    TRY(check_run(bundle, &address, err));
    TRY(print_proven(invocation, bundle, &repeated, err));
    if (invocation_option(invocation, 'a') == NULL || bundle->chain.admission != NULL) return SUCCESS;
    invocation->ends_with = EXIT_RUN;
    return failure(err, ERROR_CONFLICT, "the run was not admitted (%.40s)", run_bundle_outcome(bundle));
}
