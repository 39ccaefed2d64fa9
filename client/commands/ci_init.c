/* `sijil ci init`: a pipeline that pushes and pulls without a stored secret, and the trust rule that it needs (docs/ci.md). */
#include <stdio.h>
#include <string.h>

#include "client/commands/ci_priv.h"
#include "client/commands/commands_priv.h"
#include "registry/names/reference.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* @HOST@, @REPOSITORY@, @PROJECT@ and @FILE@ are replaced. Each command is one line, which the test of this runs (tests/scenario/ci.py). */
static const char github[] =
    "# .github/workflows/model.yml: pushes @FILE@ to @HOST@. Rule: sijil ci init github @HOST@ @REPOSITORY@ --rule\n"
    "name: model\n"
    "on:\n"
    "  push:\n"
    "    branches: [main]\n"
    "permissions:\n"
    "  contents: read\n"
    "  id-token: write\n"
    "jobs:\n"
    "  model:\n"
    "    runs-on: ubuntu-latest\n"
    "    defaults:\n"
    "      run:\n"
    "        shell: bash\n"
    "    steps:\n"
    "      - uses: actions/checkout@v4\n"
    "      - name: log in\n"
    "        run: |\n"
    "          curl -sSf -H \"Authorization: Bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN\" "
    "\"$ACTIONS_ID_TOKEN_REQUEST_URL&audience=https://@HOST@\" | jq -r .value | sijil ci login @HOST@ @REPOSITORY@\n"
    "      - name: push\n"
    "        run: sijil push @FILE@ @HOST@/@REPOSITORY@:$GITHUB_SHA\n"
    "      - name: pull\n"
    "        run: sijil pull @HOST@/@REPOSITORY@:$GITHUB_SHA --output pulled\n";
static const char gitlab[] = "# .gitlab-ci.yml: pushes @FILE@ to @HOST@. Rule: sijil ci init gitlab @HOST@ @REPOSITORY@ --rule\n"
                             "model:\n"
                             "  rules:\n"
                             "    - if: $CI_COMMIT_REF_PROTECTED == \"true\"\n"
                             "  id_tokens:\n"
                             "    SIJIL_ID_TOKEN:\n"
                             "      aud: https://@HOST@\n"
                             "  script:\n"
                             "    - printf %s \"$SIJIL_ID_TOKEN\" | sijil ci login @HOST@ @REPOSITORY@\n"
                             "    - sijil push @FILE@ @HOST@/@REPOSITORY@:$CI_COMMIT_SHA\n"
                             "    - sijil pull @HOST@/@REPOSITORY@:$CI_COMMIT_SHA --output pulled\n";
static const char jenkins[] =
    "// Jenkinsfile: pushes @FILE@ to @HOST@. Rule: sijil ci init jenkins @HOST@ @REPOSITORY@ --rule\n"
    "// The credential \"sijil\" is an \"OpenID Connect id token\" of the plugin oidc-provider, with the audience https://@HOST@ and a\n"
    "// claim template jti=${BUILD_TAG}: Jenkins writes no jti of its own, and the rule lets each token be used once.\n"
    "pipeline {\n"
    "  agent any\n"
    "  stages {\n"
    "    stage('model') {\n"
    "      steps {\n"
    "        withCredentials([string(credentialsId: 'sijil', variable: 'SIJIL_ID_TOKEN')]) {\n"
    "          sh 'printf %s \"$SIJIL_ID_TOKEN\" | sijil ci login @HOST@ @REPOSITORY@'\n"
    "        }\n"
    "        sh 'sijil push @FILE@ @HOST@/@REPOSITORY@:build-$BUILD_NUMBER'\n"
    "        sh 'sijil pull @HOST@/@REPOSITORY@:build-$BUILD_NUMBER --output pulled'\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char kubernetes[] =
    "# kubectl create -f FILE: a Job that pushes @FILE@ to @HOST@. Rule: sijil ci init kubernetes @HOST@ @REPOSITORY@ --rule\n"
    "apiVersion: batch/v1\n"
    "kind: Job\n"
    "metadata:\n"
    "  generateName: model-\n"
    "spec:\n"
    "  backoffLimit: 0\n"
    "  template:\n"
    "    spec:\n"
    "      serviceAccountName: model\n"
    "      automountServiceAccountToken: false\n"
    "      restartPolicy: Never\n"
    "      volumes:\n"
    "        - name: sijil\n"
    "          projected:\n"
    "            sources:\n"
    "              - serviceAccountToken:\n"
    "                  audience: https://@HOST@\n"
    "                  expirationSeconds: 600\n"
    "                  path: token\n"
    "      containers:\n"
    "        - name: model\n"
    "          image: IMAGE-WITH-SIJIL-AND-YOUR-CODE\n"
    "          volumeMounts:\n"
    "            - name: sijil\n"
    "              mountPath: /var/run/sijil\n"
    "          env:\n"
    "            - name: POD_NAME\n"
    "              valueFrom:\n"
    "                fieldRef:\n"
    "                  fieldPath: metadata.name\n"
    "          command: [sh, -ec]\n"
    "          args:\n"
    "            - |\n"
    "              sijil ci login @HOST@ @REPOSITORY@ < /var/run/sijil/token\n"
    "              sijil push @FILE@ @HOST@/@REPOSITORY@:$POD_NAME\n"
    "              sijil pull @HOST@/@REPOSITORY@:$POD_NAME --output pulled\n";

#define RULE(system, issuer, match, more)                                                                                     \
    "{\n  \"id\": \"" system "-model\",\n  \"scope\": \"@PROJECT@\",\n  \"system\": \"" system "\",\n  \"issuer\": \"" issuer \
    "\",\n  \"audience\": \"https://@HOST@\",\n" more "  \"match\": {\n" match                                                \
    "\n  },\n  \"grant\": [{\"role\": \"publisher\", "                                                                        \
    "\"on\": \"@REPOSITORY@\"}],\n  \"priority\": 100,\n  \"max_ttl\": 300,\n  \"single_use\": true\n}\n"
#define ONE(pointer, value) "    \"" pointer "\": {\"eq\": \"" value "\"}"

static const struct pipeline {
    const char *system, *text, *rule;
} pipelines[] = {
    {"github", github,
     RULE("github", "https://token.actions.githubusercontent.com",
          ONE("/repository_id", "ID-OF-THE-REPOSITORY") ",\n" ONE("/repository_owner_id", "ID-OF-ITS-OWNER") ",\n" ONE(
              "/ref", "refs/heads/main") ",\n" ONE("/event_name", "push"),
          "")},
    {"gitlab", gitlab,
     RULE("gitlab", "https://gitlab.com",
          ONE("/project_id",
              "ID-OF-THE-PROJECT") ",\n" ONE("/ref", "main") ",\n" ONE("/ref_type", "branch") ",\n" ONE("/ref_protected", "true"),
          "")},
    {"jenkins", jenkins,
     RULE("jenkins", "https://JENKINS/oidc", ONE("/sub", "https://JENKINS/job/model/"), "  \"immutable\": [\"/sub\"],\n")},
    {"kubernetes", kubernetes,
     RULE("kubernetes", "https://ISSUER-OF-THE-CLUSTER",
          ONE("/kubernetes.io/serviceaccount/uid",
              "UID-OF-THE-SERVICE-ACCOUNT") ",\n" ONE("/sub", "system:serviceaccount:NAMESPACE:model"),
          "")},
};

struct names {
    const char *host, *repository, *file;
    struct bytes project;
};

static struct bytes replacement(struct bytes word, const struct names *names)
{
    if (bytes_equal(word, bytes_of_text("HOST"))) return bytes_of_text(names->host);
    if (bytes_equal(word, bytes_of_text("REPOSITORY"))) return bytes_of_text(names->repository);
    if (bytes_equal(word, bytes_of_text("PROJECT"))) return names->project;
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
        if (with.length == 0) {
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

static struct result read_names(const struct invocation *invocation, struct names *names, struct error *err)
{
    const char *file = invocation_option(invocation, 'f');
    struct repository_name split;

    names->host = invocation->operands[1];
    names->repository = invocation->operands[2];
    names->file = file == NULL ? "model.onnx" : file;
    TRY(login_check_host(names->host, err));
    TRY(repository_name_split(bytes_of_text(names->repository), &split, err));
    if (!is_file(names->file))
        return failure(err, ERROR_INVALID, "--file: letters, digits, dots, slashes, underscores and dashes");
    const char *slash = strchr(strchr(names->repository, '/') + 1, '/');
    names->project = (struct bytes){(const uint8_t *)names->repository, (size_t)(slash - names->repository)};
    return SUCCESS;
}

struct result command_ci_init(struct invocation *invocation, struct error *err)
{
    struct names names = {0};

    TRY(line_check(invocation, read_names(invocation, &names, err)));
    for (size_t i = 0; i < COUNT(pipelines); i++) {
        if (strcmp(pipelines[i].system, invocation->operands[0]) != 0) continue;
        print(invocation_option(invocation, 'R') == NULL ? pipelines[i].text : pipelines[i].rule, &names);
        return SUCCESS;
    }
    return line_check(invocation, failure(err, ERROR_INVALID, "SYSTEM: github, gitlab, jenkins or kubernetes"));
}
