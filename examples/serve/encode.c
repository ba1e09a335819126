/* Loads an encoder that `albert export` wrote and prints the first numbers of its pooled output.

   Nothing of Python runs: only TensorFlow's C API. README.md beside this file says how to compile it.

       encode FOLDER ID ID ...
*/

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tensorflow/c/c_api.h>

enum { INPUTS = 3, SHOWN = 8 };

/* Ends the program where a call of TensorFlow's went wrong. */
static void check(const TF_Status *status, const char *doing) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s: %s\n", doing, TF_Message(status));
    exit(1);
  }
}

/* int32 (1, T). */
static TF_Tensor *row(const int32_t *values, int64_t T) {
  const int64_t shape[] = {1, T};
  TF_Tensor *tensor = TF_AllocateTensor(TF_INT32, shape, 2, T * sizeof(int32_t));
  memcpy(TF_TensorData(tensor), values, T * sizeof(int32_t));
  return tensor;
}

/* Part of a serialized protocol buffer. */
typedef struct {
  const uint8_t *at, *end;
} Span;

static uint64_t varint(Span *span) {
  uint64_t value = 0;
  for (int shift = 0; span->at < span->end; shift += 7) {
    const uint8_t byte = *span->at++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) break;
  }
  return value;
}

static int equals(Span span, const char *text) {
  const size_t length = span.end - span.at;
  return length == strlen(text) && memcmp(span.at, text, length) == 0;
}

/* The first field of that number in a message; with a key, the value of that key in a map. Empty if not there. */
static Span find(Span message, uint64_t number, const char *key) {
  while (message.at < message.end) {
    const uint64_t tag = varint(&message);
    if ((tag & 7) == 0) {
      varint(&message);
    } else if ((tag & 7) != 2) {
      message.at += (tag & 7) == 1 ? 8 : 4;
    } else {
      const uint64_t length = varint(&message);
      const Span field = {message.at, message.at + length};
      message.at = field.end;
      if (tag >> 3 != number) continue;
      if (key == NULL) return field;
      if (equals(find(field, 1, NULL), key)) return find(field, 2, NULL);
    }
  }
  return (Span){NULL, NULL};
}

enum Side { INPUT = 1, OUTPUT = 2 }; /* the numbers of SignatureDef's fields */

/* What the signature `tokens` calls `name`: MetaGraphDef.signature_def, SignatureDef.inputs, TensorInfo.name. */
static TF_Output tensor_of(TF_Graph *graph, const TF_Buffer *meta, enum Side side, const char *name) {
  const Span whole = {meta->data, (const uint8_t *)meta->data + meta->length};
  const Span found = find(find(find(whole, 5, "tokens"), side, name), 1, NULL); /* "operation:index" */
  char tensor[256] = "";
  snprintf(tensor, sizeof tensor, "%.*s", (int)(found.end - found.at), (const char *)found.at);
  char *colon = strrchr(tensor, ':');
  if (colon != NULL) *colon = 0;
  const TF_Output output = {TF_GraphOperationByName(graph, tensor), colon ? atoi(colon + 1) : 0};
  if (output.oper == NULL) {
    fprintf(stderr, "no signature `tokens` with `%s`: is it an encoder?\n", name);
    exit(1);
  }
  return output;
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: %s FOLDER ID ID ...\n", arguments[0]);
    return 2;
  }
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Buffer *meta = TF_NewBuffer();
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, arguments[1], tags, 1, graph, meta, status);
  check(status, "loading");

  const int64_t T = count - 2;
  int32_t *ids = malloc(3 * T * sizeof(int32_t));
  for (int64_t t = 0; t < T; t++) {
    ids[t] = atoi(arguments[t + 2]);
    ids[T + t] = 1;     /* mask: every id is a token */
    ids[2 * T + t] = 0; /* all of the first segment */
  }
  const TF_Output inputs[] = {tensor_of(graph, meta, INPUT, "input_ids"),
                              tensor_of(graph, meta, INPUT, "input_mask"),
                              tensor_of(graph, meta, INPUT, "segment_ids")};
  const TF_Output output = tensor_of(graph, meta, OUTPUT, "pooled_output");
  TF_Tensor *given[] = {row(ids, T), row(ids + T, T), row(ids + 2 * T, T)};
  TF_Tensor *pooled = NULL;
  TF_SessionRun(session, NULL, inputs, given, INPUTS, &output, &pooled, 1, NULL, 0, NULL, status);
  check(status, "running");

  const float *values = TF_TensorData(pooled);
  for (int i = 0; i < SHOWN && i < TF_Dim(pooled, 1); i++) printf("%.6f ", values[i]);
  printf("\n");

  for (int i = 0; i < INPUTS; i++) TF_DeleteTensor(given[i]);
  TF_DeleteTensor(pooled);
  free(ids);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteBuffer(meta);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
