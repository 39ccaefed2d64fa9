/* `sijil run start`: a specification becomes a request, signed here or asked for by a token. */
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "client/commands/run_priv.h"
#include "client/commands/run_spec.h"
#include "client/local.h"
#include "client/manifest.h"

/* A runner unpacks one image. It would refuse an index only after request, approvals and order. */
static struct result check_image(const struct manifest *manifest, const char *reference, struct error *err)
{
    const json_t *listed = json_object_get(manifest->json, "manifests");

    if (!manifest_is_index(manifest)) return SUCCESS;
    const char *first = json_text_of(json_array_get(listed, 0), "digest");
    return failure(
        err, ERROR_INVALID,
        "image: %.200s is an index of %zu images: name one of them with repository and digest (the first one is %.71s)",
        reference, json_array_size(listed), first == NULL ? "not named" : first);
}

/* The registry answers in the same way if it does not show the repository to this person. */
static struct result explain_missing(struct invocation *invocation, const struct remote_reference *reference, const char *text,
                                     struct error *err)
{
    char command[700]; /* a host of 250 bytes, a repository of 255 */

    if (err->kind != ERROR_NOT_FOUND) return (struct result){.ok = false};
    (void)snprintf(command, sizeof command, "sijil tags %.250s/%.255s", invocation->operands[0], reference->repository);
    report_explain(invocation_report(invocation), "try", command);
    return failure(err, ERROR_NOT_FOUND, "reference %.200s: the registry has no such tag or digest, or does not show it to you",
                   text);
}

/* An artifact with "reference" gets the repository and the digest that the reference has now. */
static struct result resolve(struct invocation *invocation, struct session *session, bool is_image, json_t *artifact,
                             struct error *err)
{
    const char *text = json_text_of(artifact, "reference");
    char whole[700], scope[400]; /* a host of 250 bytes, a reference of 400 */
    struct remote_reference reference;
    OWNED_MANIFEST manifest = MANIFEST;

    if (text == NULL) return SUCCESS;
    (void)snprintf(whole, sizeof whole, "%.250s/%.400s", invocation->operands[0], text);
    TRY(remote_reference_parse(whole, &reference, err));
    (void)snprintf(scope, sizeof scope, "repository:%s:pull", reference.repository);
    if (!manifest_fetch(session, scope, &reference, ACCEPTED_MANIFESTS ", " ACCEPTED_INDEXES, &manifest, err).ok)
        return explain_missing(invocation, &reference, text, err);
    if (is_image) TRY(check_image(&manifest, text, err));
    (void)json_object_del(artifact, "reference");
    if (json_object_set_new(artifact, "repository", json_string(reference.repository)) != 0 ||
        json_object_set_new(artifact, "digest", json_string(manifest.digest)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a run");
    return SUCCESS;
}

static struct result resolve_all(struct invocation *invocation, struct session *session, const json_t *spec, struct error *err)
{
    const json_t *image = json_object_get(spec, "image");
    json_t *artifact;

    for (size_t i = 0; (artifact = run_spec_artifact(spec, i)) != NULL; i++)
        TRY(resolve(invocation, session, artifact == image, artifact, err));
    return SUCCESS;
}

static struct result read_spec(struct invocation *invocation, const char *path, json_t **spec_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX);

    TRY(local(file_read(path, &text, err), path, err));
    return run_spec_parse(buffer_bytes(&text), path, invocation_report(invocation), spec_out, err);
}

struct run_address run_new_address(const struct invocation *invocation, const json_t *run)
{
    return (struct run_address){
        .host = invocation->operands[0], .project = invocation->operands[1], .run = json_text_of(run, "id")};
}

struct result run_started(struct invocation *invocation, struct session *session, json_t *run, struct error *err)
{
    const bool follows = invocation_option(invocation, 'f') != NULL;
    const struct run_address address = run_new_address(invocation, run);

    if (!follows && invocation_option(invocation, 'w') == NULL) return run_print(invocation, &address, run, err);
    if (!invocation->json) (void)fprintf(stderr, "run %s; it goes on also when this ends\n", address.run);
    if (follows) TRY(run_follow_log(invocation, session, &address, err));
    return run_wait(invocation, session, &address, err);
}

struct result run_check_line(struct invocation *invocation, struct error *err)
{
    if (!invocation->json || invocation_option(invocation, 'f') == NULL) return SUCCESS;
    return line_check(invocation,
                      failure(err, ERROR_INVALID, "--follow shows the log, which is no JSON: use --wait with --json"));
}

struct result command_run_start(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON spec = NULL;
    OWNED_JSON run = NULL;
    int64_t hours = 0;

    TRY(run_check_line(invocation, err));
    TRY(run_project_check(invocation, err));
    TRY(run_life_option(invocation, &hours, err));
    TRY(run_signer(invocation, invocation->operands[0], &key, err));
    TRY(read_spec(invocation, invocation->operands[2], &spec, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(resolve_all(invocation, session, spec, err));
    TRY(run_resume_option(invocation, session, spec, err));
    TRY(run_ask(session, &(struct run_wish){.project = invocation->operands[1], .spec = spec}, hours, key, &run, err));
    return run_started(invocation, session, run, err);
}
