/* `sijil ci init`: a pipeline without a stored secret, that pushes or that trains, and the trust rule that it needs (docs/ci.md). */
#include <stdio.h>
#include <string.h>

#include "client/commands/ci_priv.h"
#include "client/commands/commands_priv.h"
#include "registry/names/reference.h"

#define REPOSITORIES_MAX ((size_t)16 * 256) /* a run reads code, image and inputs; names have at most 255 bytes */

#define OTHERS_MAX 6 /* projects besides that of the run: a rule has at most eight grants */

/* What stands for @HOST@, @REPOSITORY@, @REPOSITORIES@, @PROJECT@, @SCOPE@, @OTHERS@ and @FILE@ in a pipeline. */
struct names {
    const char *host, *repository, *file;
    struct bytes project, repositories;
    struct bytes scope;  /* the project; the organisation, if the run reads from more than one project */
    struct bytes others; /* grants on the other projects */
};

static struct bytes replacement(struct bytes word, const struct names *names)
{
    if (bytes_equal(word, bytes_of_text("HOST"))) return bytes_of_text(names->host);
    if (bytes_equal(word, bytes_of_text("REPOSITORY"))) return bytes_of_text(names->repository);
    if (bytes_equal(word, bytes_of_text("REPOSITORIES"))) return names->repositories;
    if (bytes_equal(word, bytes_of_text("PROJECT"))) return names->project;
    if (bytes_equal(word, bytes_of_text("SCOPE"))) return names->scope;
    if (bytes_equal(word, bytes_of_text("OTHERS"))) return names->others;
    return bytes_equal(word, bytes_of_text("FILE")) ? bytes_of_text(names->file) : (struct bytes){0};
}

/* An @ that begins no word, as in checkout@v4, stays. */
static void print(const char *text, const struct names *names)
{
    for (const char *at = text; *at != '\0'; at++) {
        const char *end = *at == '@' ? strchr(at + 1, '@') : NULL;
        const struct bytes word =
            end == NULL ? (struct bytes){0} : (struct bytes){(const uint8_t *)at + 1, (size_t)(end - at - 1)};
        const struct bytes with = replacement(word, names);
        if (with.data == NULL) {
            (void)fputc(*at, stdout);
            continue;
        }
        (void)fwrite(with.data, 1, with.length, stdout);
        at = end;
    }
}

/* The names go into commands of a shell, so they have no character that a shell would read. */
static bool is_file(const char *name)
{
    return name[0] != '\0' && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") == strlen(name);
}

static struct bytes project_of(const char *repository)
{
    const char *slash = strchr(strchr(repository, '/') + 1, '/');
    return (struct bytes){(const uint8_t *)repository, (size_t)(slash - repository)};
}

static bool is_listed(const struct invocation *invocation, unsigned before, struct bytes project)
{
    for (unsigned i = 2; i < before; i++)
        if (bytes_equal(project_of(invocation->operands[i]), project)) return true;
    return false;
}

/* The first one names the project of the run. */
static struct result read_repositories(const struct invocation *invocation, struct buffer *repositories, struct error *err)
{
    for (unsigned i = 2; i < invocation->operand_count; i++) {
        struct repository_name split;
        TRY(repository_name_split(bytes_of_text(invocation->operands[i]), &split, err));
        TRY(buffer_format(repositories, err, "%s%s", i == 2 ? "" : " ", invocation->operands[i]));
    }
    return SUCCESS;
}

/* A run may read from other projects of the organisation: run.use is asked for there. */
static struct result read_projects(const struct invocation *invocation, struct names *names, struct buffer *others,
                                   struct error *err)
{
    const size_t organisation = strcspn(names->repository, "/");
    unsigned count = 0;

    names->scope = names->project = project_of(names->repository);
    for (unsigned i = 3; i < invocation->operand_count; i++) {
        const struct bytes project = project_of(invocation->operands[i]);
        if (is_listed(invocation, i, project)) continue;
        if (strncmp(invocation->operands[i], names->repository, organisation + 1) != 0)
            return failure(err, ERROR_INVALID,
                           "%.255s is of another organisation, and a trust rule is of one: push what the run reads into %.*s",
                           invocation->operands[i], (int)organisation, names->repository);
        if (++count > OTHERS_MAX)
            return failure(err, ERROR_INVALID, "repositories of at most %d projects: a trust rule has at most eight grants",
                           OTHERS_MAX + 1);
        names->scope.length = organisation;
        TRY(buffer_format(others, err, ", {\"role\": \"trainer\", \"on\": \"%.*s\"}", (int)project.length,
                          (const char *)project.data));
    }
    names->others = (struct bytes){others->length == 0 ? (const uint8_t *)"" : others->data, others->length};
    return SUCCESS;
}

static struct result read_names(const struct invocation *invocation, bool trains, struct buffer *repositories,
                                struct buffer *others, struct names *names, struct error *err)
{
    const char *file = invocation_option(invocation, 'f');

    names->host = invocation->operands[1];
    names->repository = invocation->operands[2];
    names->file = file != NULL ? file : trains ? "spec.yaml" : "model.onnx";
    TRY(login_check_host(names->host, err));
    TRY(read_repositories(invocation, repositories, err));
    names->repositories = buffer_bytes(repositories);
    if (!trains && invocation->operand_count > 3)
        return failure(err, ERROR_INVALID, "one REPOSITORY, or --train: a run reads code and inputs from others");
    if (!is_file(names->file))
        return failure(err, ERROR_INVALID, "--file: letters, digits, dots, slashes, underscores and dashes");
    return read_projects(invocation, names, others, err);
}

struct result command_ci_init(struct invocation *invocation, struct error *err)
{
    const bool trains = invocation_option(invocation, 't') != NULL;
    const struct ci_pipelines *pipelines = trains ? &ci_training : &ci_pushing;
    struct buffer OWNED_BUFFER repositories = BUFFER(REPOSITORIES_MAX), others = BUFFER(REPOSITORIES_MAX);
    struct names names = {0};

    TRY(line_check(invocation, read_names(invocation, trains, &repositories, &others, &names, err)));
    for (size_t i = 0; i < pipelines->count; i++) {
        const struct ci_pipeline *pipeline = &pipelines->each[i];
        if (strcmp(pipeline->system, invocation->operands[0]) != 0) continue;
        print(invocation_option(invocation, 'R') == NULL ? pipeline->text : pipeline->rule, &names);
        return SUCCESS;
    }
    return line_check(invocation,
                      failure(err, ERROR_INVALID, "no pipeline for '%.40s': SYSTEM is github, gitlab, jenkins or kubernetes",
                              invocation->operands[0]));
}
