// Swagger UI shows the API, and people try it out there.
SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  defaultModelsExpandDepth: -1,
  validatorUrl: null,
});
